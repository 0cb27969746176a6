// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/input_facts.h"
#include "analyzer/advise/rule.h"
#include "analyzer/advise/whole_batches.h"
#include "analyzer/io/printable.h"
#include "analyzer/model/stacks.h"
#include "analyzer/model/training_stacks.h"

namespace gpuwatch::advise {

extern const Rule kCollateCost;

namespace {

using attribute::Category;
using attribute::Group;

constexpr double kLeastInputShare = 0.05;
constexpr double kLeastCollate = 0.30;
constexpr double kLeastTransferMs = 5;
constexpr double kLeastTransferCpuMs = 2;

constexpr Threshold kThresholds[] = {
    {"data stall", kLeastInputShare, "of the step", "below it a job is not input-bound"},
    {"collating", kLeastCollate, "of the time to make a batch",
     "below it, making the samples takes by far the larger part"},
    {"worker-to-trainer transfer", kLeastTransferMs, "ms a batch",
     "exceeded by nine of ten batches. A few tensors in shared memory take 0.3 to 3 ms"},
    {"CPU time of the workers outside of making batches", kLeastTransferCpuMs, "ms a batch",
     "sending a few tensors takes 0.3 ms. Below the threshold, the batch waits for a busy machine, not for "
     "pickling"},
    kLeastGain,
};

// The recorded batches as if collating took no time.
predict::LoaderReplayInput without_collating(const predict::LoaderReplayInput& recorded) {
  predict::LoaderReplayInput changed = recorded;
  for (predict::ReplayEpoch& epoch : changed.epochs) {
    for (predict::BatchCost& batch : epoch.batches) {
      if (batch.service_ns <= 0) continue;
      const double left = 1 - batch.collate_ns / batch.service_ns;
      for (double* part : {&batch.service_ns, &batch.cpu_ns, &batch.io_ns}) *part *= left;
      batch.collate_ns = 0;
    }
  }
  return changed;
}

// Where the training thread collates itself.
std::vector<model::TimeSpan> collating_inline(const RuleInput& input, const model::Loader& configured) {
  std::vector<model::TimeSpan> collating;
  for (const model::LoaderEpoch& epoch : input.process.epochs)
    for (const model::Batch& batch : epoch.batches)
      if (&input.process.loaders[epoch.loader] == &configured && batch.collate_ns > 0)
        collating.push_back(
            {batch.fetch.end - std::min(batch.collate_ns, batch.fetch.length()), batch.fetch.end});
  return collating;
}

// The function that takes most of the time in collate_fn: seen in the training thread, or in workers that
// hardly do anything else.
std::optional<model::SeenFunction> slow_function(const RuleInput& input, double share) {
  constexpr double kMost = 0.5, kHardlyElse = 0.8;
  const model::Loader* configured = input.configured_loader();
  if (!configured) return std::nullopt;
  const auto loader = uint32_t(configured - input.process.loaders.data());
  std::vector<model::SeenFunction> functions;
  if (input.loader->setting.workers == 0) {
    functions = model::fetch_functions(input.run, input.process, collating_inline(input, *configured));
  } else if (share >= kHardlyElse) {
    functions = model::worker_activity(input.run, input.process, loader).functions;
  }
  if (functions.empty() || functions.front().samples < model::kLeastStackSamples) return std::nullopt;
  return functions.front().share >= kMost ? std::optional(functions.front()) : std::nullopt;
}

// PyTorch's own collating stacks what has one shape already. Seen in the training thread.
bool is_default_collate(const RuleInput& input) {
  constexpr double kMost = 0.5;
  const model::Loader* configured = input.configured_loader();
  if (!configured || input.loader->setting.workers > 0) return false;
  size_t seen = 0, by_default = 0;
  for (const model::WorkerStack* sample :
       model::training_samples(input.process, collating_inline(input, *configured))) {
    const auto text = input.run.texts.find(sample->text);
    if (text == input.run.texts.end()) continue;
    const std::vector<model::StackFrame> frames = model::frames_of(text->second);
    const auto collate = std::ranges::find_if(frames, [](const model::StackFrame& frame) {
      return frame.file.ends_with("/torch/utils/data/_utils/collate.py");
    });
    ++seen;
    by_default +=
        collate != frames.end() && std::all_of(frames.begin(), collate, model::is_torch_or_interpreter);
  }
  return seen >= model::kLeastStackSamples && double(by_default) >= kMost * double(seen);
}

void name_function(Finding& finding, const model::SeenFunction& slow) {
  const std::string name = io::printable(slow.frame.function), place = io::printable(slow.frame.location());
  finding.evidence.push_back(
      {fmt::format("of it in {} ({})", name, place), 100 * slow.share, "% of the stack samples"});
  if (model::is_users(slow.frame)) return;  // collate_fn itself, or a part of it
  finding.fix.summary = fmt::format(
      "Take {} out of collate_fn: do its work once when the data are prepared, or in the dataset, and return "
      "tensors of one shape",
      name);
}

std::optional<Finding> slow_collate(const RuleInput& input, double waits) {
  const InputFacts& facts = *input.facts;
  const double share = facts.fetch_ns > 0 ? facts.collate_ns / facts.fetch_ns : 0;
  if (share < kLeastCollate) return std::nullopt;
  const predict::LoaderSetting setting = input.loader_setting();
  const predict::LoaderReplayInput changed = without_collating(*input.loader);
  const double now = expected_step_ms(input, *input.loader, setting);
  const double after = expected_step_ms(input, changed, setting);
  if (now < after * kLeastSpeedup) return std::nullopt;

  Finding finding = make_finding(kCollateCost, input, std::min(waits, 1 - after / now));
  finding.title = fmt::format("Collating: collate_fn takes {:.0f}% of the time to make a batch, {}",
                              100 * share, stall_words(input, waits));
  finding.evidence = {{"collating", facts.per_batch(facts.collate_ns) / 1e6, "ms a batch"},
                      {"time to make a batch", facts.per_batch(facts.fetch_ns) / 1e6, "ms"},
                      {"collating", 100 * share, "% of the time to make a batch"},
                      share_evidence(input, Category::InputCollate),
                      {"data stall", 100 * waits, "% of the step"}};
  finding.fix.change = NamedChange{"collate_fn", ""};
  finding.fix.summary =
      "Return tensors of one shape from the dataset, so that collate is a single torch.stack";
  finding.fix.snippet = "def collate_fn(samples): return torch.stack(samples)";
  if (const auto slow = slow_function(input, share)) name_function(finding, *slow);
  if (is_default_collate(input)) {
    // The calls of __getitem__ go as well: no more is known than that the time to make the batch does.
    finding.lost_share = waits;
    finding.ceiling_speedup = ceiling_without_input(input, waits);
    propose_whole_batches(finding, *input.configured_loader());
    return finding;
  }
  finding.prediction = loader_prediction(input, changed, input.loader_check, setting);
  if (finding.prediction)
    finding.prediction->assumptions.emplace_back(
        "collating takes no time (stacking tensors of one shape takes almost none)");
  // Larger tensors also spare calls of __getitem__ and a part of the transfer: whole batches gained 2.9 times
  // in two workers that collating alone bounded by 1.6.
  finding.ceiling_speedup = ceiling_without_input(input, waits);
  return finding;
}

// How long the transfer of cheaper batches would take is not known, nor how long making them, so there is
// only an upper bound: that of all data stalls. Bounded by the transfer alone, lists of tensors said up
// to 5.7x, and tensors gained 40x.
std::optional<Finding> slow_transfer(const RuleInput& input, double waits) {
  const InputFacts& facts = *input.facts;
  const double lost = input.rank.share(Category::InputTransfer);
  const double ms = facts.transfer_ns / 1e6;
  const double cpu_ms = facts.transfer_cpu_ns() / 1e6;
  if (lost < kLeastInputShare || ms < kLeastTransferMs || cpu_ms < kLeastTransferCpuMs) return std::nullopt;

  Finding finding = make_finding(kCollateCost, input, lost);
  finding.title =
      "Worker-to-trainer transfer: moving batches to the trainer is slow, " + stall_words(input, lost);
  finding.evidence = {share_evidence(input, Category::InputTransfer),
                      {"transfer from worker to trainer, at least", ms, "ms a batch"},
                      {"CPU time of the workers for the transfer", cpu_ms, "ms a batch"},
                      {"time to make a batch", facts.per_batch(facts.fetch_ns) / 1e6, "ms"}};
  finding.fix.change = NamedChange{"batch", ""};
  finding.fix.summary = "Return a few large tensors from collate_fn, not lists, strings or NumPy arrays";
  finding.fix.snippet =
      "return torch.as_tensor(array)  # tensors move through shared memory, other objects are pickled";
  finding.ceiling_speedup = ceiling_without_input(input, waits);
  return finding;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const double waits = input.rank.steady_input_share();
  if (!input.loader || !input.facts || waits < kLeastInputShare) return std::nullopt;
  auto finding = slow_collate(input, waits);
  if (!finding) finding = slow_transfer(input, waits);
  if (!finding) return std::nullopt;
  if (const model::Loader* configured = input.configured_loader())
    finding->fix.location = configured->location;
  return finding;
}

}  // namespace

const Rule kCollateCost{
    "collate-cost",
    "Data loading is slow because of `collate_fn`, or because of the worker-to-trainer transfer of each "
    "batch.",
    "Training waits for data. Either collating takes a third of the time to make a batch, and the simulated "
    "replay without it is faster. Or the worker-to-trainer transfer (`input.transfer`) stalls training: it "
    "is short for tensors in shared memory and long for objects that are pickled.",
    "Return tensors of one shape from the dataset, so that collate is a single `torch.stack` (where it is "
    "one, "
    "and there are many small samples: index whole batches), and move "
    "other work from `collate_fn` to the dataset. For a slow transfer, return a few large tensors instead "
    "of lists, strings, NumPy arrays or objects.",
    kThresholds,
    evaluate,
    {attribute::Category::InputCollate, attribute::Category::InputTransfer,
     attribute::Category::InputTransform, attribute::Category::InputGil, attribute::Category::InputUnknown}};

}  // namespace gpuwatch::advise
