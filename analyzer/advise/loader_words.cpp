// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/loader_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string_view>

#include "analyzer/io/printable.h"

namespace gpuwatch::advise {
namespace {

// The options as the table spells them: a setting that PyTorch does not have is no LoaderOption.
namespace options {
constexpr LoaderOption num_workers = LoaderOption::kNumWorkers;
constexpr LoaderOption prefetch_factor = LoaderOption::kPrefetchFactor;
constexpr LoaderOption persistent_workers = LoaderOption::kPersistentWorkers;
constexpr LoaderOption in_order [[maybe_unused]] = LoaderOption::kInOrder;
constexpr LoaderOption pin_memory = LoaderOption::kPinMemory;
}  // namespace options

struct FrameworkWords {
  std::string_view framework;
  LoaderOption option;
  std::string_view setting, snippet;
};
constexpr FrameworkWords kFrameworkWords[] = {
#define GW_FRAMEWORK_SETTING(framework, option, setting, snippet) \
  {framework, options::option, setting, snippet},
#include "libinject/trace/frameworks.def"
};

constexpr struct {
  std::string_view id, name;
} kFrameworkNames[] = {
#define GW_FRAMEWORK(id, name) {id, name},
#include "libinject/trace/frameworks.def"
};

const FrameworkWords* find_words(std::string_view framework, LoaderOption option) {
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

std::string framework_name(const std::string& id) {
  for (const auto& framework : kFrameworkNames)
    if (framework.id == id) return std::string(framework.name);
  return io::printable(id);
}

SettingWords setting_words(const LoaderChange& change, const model::Loader* loader) {
  const std::string option(option_name(change.option)), value = setting_value(change);
  const std::string written = class_to_write(loader);
  if (const FrameworkWords* words = loader ? find_words(loader->framework, change.option) : nullptr) {
    const auto say = [&](std::string_view text) { return fmt::format(fmt::runtime(text), value, written); };
    return {say(words->setting), say(words->snippet)};
  }
  const std::string setting = fmt::format("{}={}", option, value);
  return {setting, fmt::format("{}(..., {})", written, setting)};
}

std::vector<PipelineStage> pipeline_stages(const model::Loader& loader) {
  constexpr std::string_view kBetween = " < ";
  std::vector<PipelineStage> stages;
  std::istringstream locations(loader.stages);
  std::string_view rest = loader.dataset;
  while (!rest.empty() && loader.framework != "torch") {
    const size_t end = std::min(rest.find(kBetween), rest.size());
    const std::string_view words = rest.substr(0, end);
    rest.remove_prefix(std::min(end + kBetween.size(), rest.size()));
    const size_t open = words.find(" (");
    PipelineStage& stage = stages.emplace_back();
    stage.name = words.substr(0, open);
    if (open != words.npos && words.ends_with(')'))
      stage.python = words.substr(open + 2, words.size() - open - 3);
    std::getline(locations, stage.location);
  }
  return stages;
}

std::string batch_size_location(const model::Loader& loader) {
  for (const PipelineStage& stage : pipeline_stages(loader))
    if (stage.name.ends_with("Batch") && !stage.location.empty()) return stage.location;
  return loader.location;
}

void propose(Finding& finding, const RuleInput& input, const LoaderChange& change) {
  const model::Loader* loader = input.configured_loader();
  const SettingWords words = setting_words(change, loader);
  finding.fix.change = change;
  finding.fix.summary = "Set " + words.setting;
  if (loader && loader->repeats_per_worker && change.option == LoaderOption::kNumWorkers &&
      change.value > std::max(loader->num_workers, 1))
    finding.fix.summary += fmt::format(
        ", and let {}.__iter__ split the data by get_worker_info(): no code there asks for it, and each "
        "worker "
        "would yield all samples",
        io::printable(loader->dataset));
  finding.fix.snippet = words.snippet;
  if (loader) finding.fix.location = loader->location;
}

}  // namespace gpuwatch::advise
