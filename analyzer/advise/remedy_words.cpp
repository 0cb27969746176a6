// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/remedy_words.h"

#include <fmt/format.h>

#include "analyzer/model/training_framework.h"

namespace gpuwatch::advise {
namespace {

// The remedies as the table spells them.
using enum Remedy;

struct Row {
  std::string_view module;
  Remedy remedy;
  std::string_view setting, value, summary, snippet;
};
constexpr Row kRows[] = {
#define GW_FRAMEWORK_REMEDY(module, remedy, setting, value, summary, snippet) \
  {module, remedy, setting, value, summary, snippet},
#include "libinject/trace/frameworks.def"
};

}  // namespace

std::optional<RemedyWords> remedy_words(const model::Process& process, Remedy remedy,
                                        std::string_view filled_in) {
  const auto say = [&](std::string_view text) { return fmt::format(fmt::runtime(text), filled_in); };
  for (const Row& row : kRows)
    if (row.remedy == remedy && model::trains_with(process, row.module))
      return RemedyWords{say(row.setting), say(row.value), say(row.summary), say(row.snippet)};
  return std::nullopt;
}

bool speaks_torch(const model::Process& process) {
  return model::trains_with(process, "torch");
}

}  // namespace gpuwatch::advise
