// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/many_tensors.h"

#include <fmt/format.h>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/collating.h"
#include "analyzer/advise/input_facts.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;

constexpr double kTensorsLeft = 2;  // what goes into the model, and what it is held against

// The recorded batches with `left` of the tensors. PyTorch's own collate_fn makes them one by one.
predict::LoaderReplayInput with_fewer(const predict::LoaderReplayInput& recorded, double left,
                                      bool is_collated_by_default) {
  predict::LoaderReplayInput changed = with_collating(recorded, is_collated_by_default ? left : 1);
  for (double* cost : {&changed.hand_over.send_ns, &changed.hand_over.take_ns}) *cost *= left;
  for (predict::ReplayEpoch& epoch : changed.epochs)
    for (predict::BatchCost& batch : epoch.batches) batch.send_ns *= left;
  return changed;
}

}  // namespace

std::optional<Finding> many_tensors(const Rule& rule, const RuleInput& input, double least_share) {
  const InputFacts& facts = *input.facts;
  const double tensors = facts.per_batch(facts.tensors), lost = input.rank.share(Category::InputTransfer);
  if (input.loader->setting.workers < 1 || tensors < kManyTensors) return std::nullopt;
  if (lost < least_share || lost < input.rank.share(Category::InputCollate)) return std::nullopt;
  const double left = kTensorsLeft / tensors;
  // Where collating is too short to be seen, no function of the script is known to be in it.
  const Collating collating = seen_collating(input, collating_share(input));
  const bool is_default = collating.is_default || (!collating.users && !collating.slow);
  const predict::LoaderSetting setting = input.loader_setting();
  const predict::LoaderReplayInput changed = with_fewer(*input.loader, left, is_default);
  if (expected_step_ms(input, *input.loader, setting) <
      kLeastSpeedup * expected_step_ms(input, changed, setting))
    return std::nullopt;
  Finding finding = make_finding(rule, input, lost);
  finding.title = fmt::format(
      "Worker-to-trainer transfer: a batch has {:.0f} tensors, each of which is sent by itself, {}", tensors,
      stall_words(input, lost));
  finding.evidence = {{"tensors of a batch", tensors, "tensors"},
                      share_evidence(input, Category::InputTransfer),
                      {"bytes of a batch", facts.per_batch(facts.tensor_bytes) / 1e3, "kB"},
                      {"time to make a batch", facts.per_batch(facts.fetch_ns) / 1e6, "ms"}};
  finding.fix.change = NamedChange{"tensors of a batch", "1"};
  finding.fix.summary =
      "Return one tensor with all values of a sample from the dataset instead of one for each, and "
      "take it apart in the model";
  finding.fix.snippet =
      "return torch.tensor(values), label  # in __getitem__; in the model: x[:, columns[\"age\"]]";
  finding.prediction = loader_prediction(input, changed, input.loader_check, setting);
  // How long making one tensor of the values takes is not known: predicted as 9.4 ms (8.4-10.9), a step
  // took 12.8 where each sample still was a dict first, and 6.7 where it was a row of a table.
  finding.ceiling_speedup = ceiling_without_input(input, input.rank.steady_input_share());
  give_as_bound(finding, *finding.ceiling_speedup);
  return finding;
}

}  // namespace gpuwatch::advise
