// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/words.h"

#include <fmt/format.h>

#include <string_view>

#include "analyzer/io/printable.h"

namespace gpuwatch::advise {
namespace {

struct Words {
  std::string_view framework, setting, summary, snippet;
};
constexpr Words kWords[] = {
#define GW_WORDS(framework, setting, summary, snippet) {framework, setting, summary, snippet},
#include "analyzer/advise/words.def"
#undef GW_WORDS
};

const Words* find_words(std::string_view framework, std::string_view setting) {
  for (const Words& words : kWords)
    if (words.framework == framework && words.setting == setting) return &words;
  return nullptr;
}

void replace_first(std::string& text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  if (at != std::string::npos) text.replace(at, from.size(), to);
}

// NeighborLoader, StreamingDataLoader, a class of the user's own: what is written at the loader's line.
std::string class_to_write(const model::Loader& loader) {
  if (loader.class_name.empty() || loader.class_name.find('<') != std::string::npos) return "DataLoader";
  return io::printable(loader.class_name.substr(loader.class_name.find_last_of('.') + 1));
}

}  // namespace

void use_words_of_framework(Finding& finding, const model::Loader* loader) {
  if (!loader || finding.fix.setting.empty() || finding.fix.value.empty()) return;
  const std::string torchs = fmt::format("{}={}", finding.fix.setting, finding.fix.value);
  const std::string written = class_to_write(*loader);
  if (const Words* words = find_words(loader->framework, finding.fix.setting)) {
    const auto say = [&](std::string_view text) {
      return fmt::format(fmt::runtime(text), finding.fix.value, written);
    };
    replace_first(finding.fix.summary, torchs, say(words->summary));
    if (!finding.fix.snippet.empty()) finding.fix.snippet = say(words->snippet);
  } else {
    replace_first(finding.fix.snippet, "DataLoader(...", written + "(...");
  }
}

}  // namespace gpuwatch::advise
