// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/costly_function.h"

#include <fmt/format.h>

#include <vector>

#include "analyzer/advise/collating.h"
#include "analyzer/io/printable.h"
#include "analyzer/model/script_work.h"
#include "analyzer/model/stacks.h"
#include "analyzer/model/training_stacks.h"

namespace gpuwatch::advise {
namespace {

constexpr size_t kLeastSamples = model::kLeastStackSamples;  // fewer do not name a function

// PyTorch's own functions and Python's are not what costs: they do for the script what it asks for.
void put(CostlyFunction& function, const model::SeenFunction& seen) {
  if (model::is_torch_or_interpreter(seen.frame)) return;
  function.name = io::printable(seen.frame.function);
  function.share = seen.share;
  if (model::is_users(seen.frame))
    function.location = seen.frame.location();
  else
    function.library = io::printable(std::string(model::library_of(seen.frame)));
}

// What makes a sample, where samples name nothing or only a package's function.
void put_sample_code(CostlyFunction& function, const model::Loader& loader) {
  const auto code = model::sample_code(loader);
  if (!code || !function.location.empty()) return;
  function.location = code->location();
  if (function.name.empty()) function.name = io::printable(code->function);
}

// "Make Views.__getitem__ cheaper"; what "it" is after that.
struct Subject {
  std::string words;
  const char *it, *is;
};

Subject subject_of(const CostlyFunction& function, const model::Loader* loader) {
  if (!function.library.empty())
    return {fmt::format("the transforms cheaper, most of all {} of {}", function.name, function.library),
            "them", "they are"};
  if (!function.name.empty())
    return {(function.name == "<lambda>" ? "the lambda" : function.name) + " cheaper", "it", "it is"};
  const std::string dataset = loader ? io::printable(loader->dataset) : "";
  return {fmt::format("the samples of {} cheaper", dataset.empty() ? "the dataset" : dataset), "them",
          "they are"};
}

// A dataset of Hugging Face that is streamed runs the functions given to map() again in each epoch:
// tokenising took 8.8 ms a step, and 4.7 once map() had kept its result.
bool is_streamed(const model::Loader* loader) {
  return model::is_made_in(loader, "/datasets/iterable_dataset.py");
}

std::string fix_words(const CostlyFunction& function, const RuleInput& input) {
  const Subject subject = subject_of(function, input.configured_loader());
  const bool has_gpu = input.rank.device != model::kNone || input.device_hidden();
  std::vector<std::string> ways = {fmt::format("Make {}", subject.words)};
  if (has_gpu) ways.push_back(fmt::format("run {} on the GPU", subject.it));
  if (is_streamed(input.configured_loader()))
    ways.emplace_back("load the dataset without streaming=True: map() then runs once and its result is kept");
  else
    ways.push_back(
        fmt::format("compute {} once and keep the result unless {} random", subject.it, subject.is));
  if (function.decoding >= kLeastDecoding) ways.emplace_back("store smaller source files");
  std::string words = ways.front();
  for (size_t i = 1; i < ways.size(); ++i) words += (i + 1 < ways.size() ? ", " : ", or ") + ways[i];
  return words;
}

model::WorkerActivity activity_of(const RuleInput& input, const model::Loader& loader) {
  return model::worker_activity(input.run, input.process, uint32_t(&loader - input.process.loaders.data()));
}

}  // namespace

double decoding_share(const RuleInput& input) {
  const model::Loader* configured = input.configured_loader();
  if (!configured) return 0;
  if (input.loader && input.loader->setting.workers == 0)
    return model::decoding_share(input.run, input.process,
                                 attribute::times_of(input.rank, attribute::Category::InputTransform));
  const model::WorkerActivity activity = activity_of(input, *configured);
  return activity.stack_samples >= kLeastSamples ? activity.decoding_share : 0;
}

CostlyFunction costly_function(const RuleInput& input) {
  CostlyFunction function;
  const model::Loader* configured = input.configured_loader();
  if (!configured) return function;
  if (input.loader && input.loader->setting.workers == 0) {
    const auto making = attribute::times_of(input.rank, attribute::Category::InputTransform);
    const auto seen = model::making_functions(input.run, input.process, making);
    if (!seen.empty()) put(function, seen.front());
    function.decoding = decoding_share(input);
  } else {
    const model::WorkerActivity activity = activity_of(input, *configured);
    // Most of these samples are collate_fn's, where that takes most of a batch.
    if (activity.stack_samples >= kLeastSamples && collating_mostly(input) == 0) {
      put(function, activity.functions.front());
      function.decoding = activity.decoding_share;
    }
  }
  put_sample_code(function, *configured);
  return function;
}

void name_costly_function(Finding& finding, const RuleInput& input) {
  const CostlyFunction function = costly_function(input);
  finding.fix.summary = fix_words(function, input);
  if (!function.location.empty()) finding.fix.location = function.location;
  if (function.share <= 0) return;
  const std::string whose = function.library.empty() ? "" : " of " + function.library;
  const char* unit = "% of making batches, by stack samples";
  finding.evidence.insert(
      finding.evidence.begin(),
      Evidence{fmt::format("time in {}{}", function.name, whose), 100 * function.share, unit});
  if (function.decoding >= kLeastDecoding)
    finding.evidence.insert(finding.evidence.begin() + 1,
                            Evidence{"decoding files", 100 * function.decoding, unit});
}

}  // namespace gpuwatch::advise
