// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/collating.h"
#include "analyzer/advise/costly_function.h"
#include "analyzer/advise/input_facts.h"
#include "analyzer/advise/machine.h"
#include "analyzer/advise/many_tensors.h"
#include "analyzer/advise/rule.h"
#include "analyzer/advise/whole_batches.h"
#include "analyzer/io/printable.h"
#include "analyzer/model/stacks.h"

namespace gpuwatch::advise {

extern const Rule kCollateCost;

namespace {

using attribute::Category;
using attribute::Group;

constexpr double kLeastInputShare = 0.05;
constexpr double kLeastCollate = 0.30;
constexpr double kLeastTransferMs = 5;
constexpr double kLeastTransferCpuMs = 2;
constexpr double kLeastOfCores = 0.10;

constexpr Threshold kThresholds[] = {
    {"data stall", kLeastInputShare, "of the step", "below it a job is not input-bound"},
    {"collating", kLeastCollate, "of the time to make a batch",
     "below it, making the samples takes by far the larger part"},
    {"worker-to-trainer transfer", kLeastTransferMs, "ms a batch",
     "exceeded by nine of ten batches. A few tensors in shared memory take 0.3 to 3 ms"},
    {"CPU time of the workers outside of making batches", kLeastTransferCpuMs, "ms a batch",
     "sending a few tensors takes 0.3 ms. Below the threshold, the batch waits for a busy machine, not for "
     "pickling"},
    {"or, where the job fills its cores, what workers take of them to collate", kLeastOfCores, "of the step",
     "training waits little then, and computes more slowly on the cores that they leave"},
    kTensorsOfBatch,
    {"and, where collate_fn is PyTorch's, stack samples in decoders of files, below", kLeastDecoding,
     "of those of making batches", "files are decoded one by one, also where whole batches are indexed"},
    kLeastGain,
};

// Samples that differ in length cannot be stacked.
bool is_padded(const InputFacts::Shapes& shapes) {
  constexpr double kRounding = 1.01;
  return shapes.padded > kRounding * shapes.elements;
}

// What a package's function does for each batch (tokenizing) need not be done there. Turning rows into
// tensors, as the default collator of transformers does, has to be done somewhere.
bool can_be_taken_out(const model::SeenFunction& slow) {
  return !model::is_users(slow.frame) &&
         slow.frame.function.find("default_data_collator") == std::string::npos;
}

// Named to the reader, its time and its line.
void name_function(Finding& finding, const Collating& collating) {
  if (collating.users) finding.fix.location = collating.users->location();
  if (!collating.slow) return;
  const model::SeenFunction& slow = *collating.slow;
  if (model::is_users(slow.frame)) finding.fix.location = slow.frame.location();
  finding.evidence.insert(finding.evidence.begin() + 1,
                          Evidence{fmt::format("time in {}", io::printable(slow.frame.function)),
                                   100 * slow.share, "% of collating, by stack samples"});
}

void propose_one_array(Finding& finding, const Collating& collating) {
  finding.fix.summary = fmt::format(
      "Fill one array per batch in {} instead of lists and a tensor for each sample (lengths differ, so that "
      "torch.stack cannot do it)",
      collating.users ? io::printable(collating.users->function) : "collate_fn");
  finding.fix.snippet =
      "batch = numpy.zeros((len(samples), longest), numpy.float32)  # then batch[i, :len(sample)] = sample";
}

void propose_format(Finding& finding) {
  finding.fix.change = NamedChange{"with_format", "torch"};
  finding.fix.summary =
      "Use dataset.with_format(\"torch\") or \"numpy\" (nested lists first as Array2D, by cast_column): "
      "without a format, rows are Python lists, which collate_fn turns into tensors number by number";
  finding.fix.snippet = "dataset = dataset.with_format(\"torch\")";
}

// Whose fix is not to index whole batches.
void propose(Finding& finding, const RuleInput& input, const Collating& collating) {
  finding.fix.change = NamedChange{"collate_fn", ""};
  finding.fix.snippet = "def collate_fn(samples): return torch.stack(samples)";
  if (collating.slow && can_be_taken_out(*collating.slow)) {
    finding.fix.summary = fmt::format(
        "Take {} out of collate_fn: do its work once when the data are prepared, or in the dataset, and "
        "return tensors of one shape",
        io::printable(collating.slow->frame.function));
  } else if (has_unformatted_rows(input)) {
    propose_format(finding);
  } else if (is_padded(input.facts->shapes)) {
    propose_one_array(finding, collating);
  } else {
    finding.fix.summary = fmt::format(
        "Do the work of {} once, when the data are prepared, and return tensors of one shape from the "
        "dataset, so that it is a single torch.stack",
        collating.users ? io::printable(collating.users->function) + "()" : "collate_fn");
  }
}

// Where workers fill the cores beside training, what they take of them rather than what training waits for.
struct Lost {
  double waits = 0, cores = 0;  // of the step
  double most() const { return std::max(waits, cores); }
};

double share_of_cores(const RuleInput& input) {
  const auto use = input.loader ? machine_use(input) : std::nullopt;
  return use ? worker_share_of_cores(input, *use) : 0;
}

double ceiling_of(const RuleInput& input, const Lost& lost) {
  return std::max(ceiling_without_input(input, lost.waits), 1 / (1 - std::min(lost.cores, 0.99)));
}

std::string lost_words(const RuleInput& input, const Lost& lost) {
  if (lost.cores <= lost.waits) return stall_words(input, lost.waits);
  const auto use = machine_use(input);
  return fmt::format("and the loader's workers take {:.1f} of the {:.1f} CPU cores that the job uses",
                     use->worker_cores, use->job_cores);
}

void describe_collate(Finding& finding, const RuleInput& input, const Lost& lost) {
  const InputFacts& facts = *input.facts;
  const double share = collating_share(input);
  finding.title = fmt::format("Collating: collate_fn takes {:.0f}% of the time to make a batch, {}",
                              100 * share, lost_words(input, lost));
  finding.evidence = {{"collating", facts.per_batch(facts.collate_ns) / 1e6, "ms a batch"},
                      {"time to make a batch", facts.per_batch(facts.fetch_ns) / 1e6, "ms"},
                      {"collating", 100 * share, "% of the time to make a batch"},
                      share_evidence(input, Category::InputCollate),
                      {"data stall", 100 * lost.waits, "% of the step"}};
}

std::optional<Finding> slow_collate(const RuleInput& input, const Lost& lost) {
  const double share = collating_share(input), of_cores = share * lost.cores;
  if (share < kLeastCollate) return std::nullopt;
  const predict::LoaderSetting setting = input.loader_setting();
  const predict::LoaderReplayInput changed = with_collating(*input.loader, 0);
  const double now = expected_step_ms(input, *input.loader, setting);
  const double after = expected_step_ms(input, changed, setting);
  const bool gains = lost.waits >= kLeastInputShare && now >= after * kLeastSpeedup;
  if (!gains && of_cores < kLeastOfCores) return std::nullopt;

  const Collating collating = seen_collating(input, share);
  const bool are_whole_batches_meant = collating.is_default && !has_unformatted_rows(input);
  // Photos are no tensors already: indexed as a whole batch, each still is decoded. Next to a busy process
  // stacking 16 of them took half of the time to make a batch.
  if (are_whole_batches_meant && decoding_share(input) >= kLeastDecoding) return std::nullopt;

  const double waits = lost.waits;
  Finding finding =
      make_finding(kCollateCost, input, std::max(gains ? std::min(waits, 1 - after / now) : 0, of_cores));
  finding.bottleneck = attribute::Bottleneck::Input;  // also where most of it is waiting for a core
  describe_collate(finding, input, lost);
  name_function(finding, collating);
  if (are_whole_batches_meant) {
    // The calls of __getitem__ go as well: no more is known than that the time to make the batch does.
    finding.lost_share = lost.most();
    finding.ceiling_speedup = ceiling_of(input, lost);
    propose_whole_batches(finding, *input.configured_loader());
    return finding;
  }
  propose(finding, input, collating);
  if (gains) finding.prediction = loader_prediction(input, changed, input.loader_check, setting);
  if (finding.prediction)
    finding.prediction->assumptions.emplace_back(
        "collating takes no time (stacking tensors of one shape takes almost none)");
  // Larger tensors also spare calls of __getitem__ and a part of the transfer: whole batches gained 2.9 times
  // in two workers that collating alone bounded by 1.6.
  finding.ceiling_speedup = ceiling_of(input, lost);
  // Samples of different lengths are copied into an array one by one: collating still takes some time, and
  // how much this recording does not tell. Filling tensors took half as long as appending to lists; of
  // another program the prediction without any collating was 19 (15-23) ms, and with arrays it trained
  // in 5.2.
  // And rows in another format are made in another way: of flat lists it gained 2.1 times, of nested ones it
  // took 36 ms where 15 (14-16) were predicted, against 28 before.
  if (is_padded(input.facts->shapes) || has_unformatted_rows(input))
    give_as_bound(finding, *finding.ceiling_speedup);
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
  if (!input.loader || !input.facts) return std::nullopt;
  const Lost lost = {.waits = input.rank.steady_input_share(), .cores = share_of_cores(input)};
  auto finding = many_tensors(kCollateCost, input, kLeastInputShare);
  if (!finding) finding = slow_collate(input, lost);
  if (!finding && lost.waits >= kLeastInputShare) finding = slow_transfer(input, lost.waits);
  if (!finding) return std::nullopt;
  const model::Loader* configured = input.configured_loader();
  if (configured && finding->fix.location.empty()) finding->fix.location = configured->location;
  return finding;
}

}  // namespace

const Rule kCollateCost{
    "collate-cost",
    "Data loading is slow because of `collate_fn`, or because of the worker-to-trainer transfer of each "
    "batch.",
    "Training waits for data. Either collating takes a third of the time to make a batch, and the simulated "
    "replay without it is faster. Or the worker-to-trainer transfer (`input.transfer`) stalls training: it "
    "is short for a few tensors in shared memory, and long for many, or for objects that are pickled. Or "
    "workers that mostly collate fill the cores next to training.",
    "Without a `collate_fn` of the script: index whole batches, not sample by sample. Where lengths differ: "
    "fill one array per batch. Of a dataset of Hugging Face without a format: `with_format(\"torch\")`. "
    "Else return tensors of one shape from the dataset, so that `collate_fn` is a single `torch.stack`, and "
    "move other work from it to the dataset. For a slow transfer, return a few large tensors instead "
    "of lists, strings, NumPy arrays or objects.",
    kThresholds,
    evaluate,
    {attribute::Category::InputCollate, attribute::Category::InputTransfer,
     attribute::Category::InputTransform, attribute::Category::InputGil, attribute::Category::InputUnknown}};

}  // namespace gpuwatch::advise
