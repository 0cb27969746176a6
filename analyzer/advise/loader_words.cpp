// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/loader_words.h"

#include <fmt/format.h>

#include <string_view>

#include "analyzer/io/printable.h"

namespace gpuwatch::advise {
namespace {

struct FrameworkWords {
  std::string_view framework, option, setting, snippet;
};
constexpr FrameworkWords kFrameworkWords[] = {
#define GW_WORDS(framework, option, setting, snippet) {framework, option, setting, snippet},
#include "analyzer/advise/loader_words.def"
#undef GW_WORDS
};

const FrameworkWords* find_words(std::string_view framework, std::string_view option) {
  for (const FrameworkWords& words : kFrameworkWords)
    if (words.framework == framework && words.option == option) return &words;
  return nullptr;
}

// NeighborLoader, StreamingDataLoader, a class of the user's own: what is written at the loader's line.
std::string class_to_write(const model::Loader* loader) {
  if (!loader || loader->class_name.empty() || loader->class_name.find('<') != std::string::npos)
    return "DataLoader";
  return io::printable(loader->class_name.substr(loader->class_name.find_last_of('.') + 1));
}

}  // namespace

SettingWords setting_words(const LoaderChange& change, const model::Loader* loader) {
  const std::string option(option_name(change.option)), value = setting_value(change);
  const std::string written = class_to_write(loader);
  if (const FrameworkWords* words = loader ? find_words(loader->framework, option) : nullptr) {
    const auto say = [&](std::string_view text) { return fmt::format(fmt::runtime(text), value, written); };
    return {say(words->setting), say(words->snippet)};
  }
  const std::string setting = fmt::format("{}={}", option, value);
  return {setting, fmt::format("{}(..., {})", written, setting)};
}

void propose(Finding& finding, const RuleInput& input, const LoaderChange& change) {
  const model::Loader* loader = input.configured_loader();
  const SettingWords words = setting_words(change, loader);
  finding.fix.change = change;
  finding.fix.summary = "Set " + words.setting;
  finding.fix.snippet = words.snippet;
  if (loader) finding.fix.location = loader->location;
}

}  // namespace gpuwatch::advise
