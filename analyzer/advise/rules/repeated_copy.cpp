// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "analyzer/advise/copies.h"
#include "analyzer/advise/location.h"

namespace gpuwatch::advise {

extern const Rule kRepeatedCopy;

namespace {

using predict::HostEvent;

constexpr double kLeastOfSteps = 0.98;
constexpr size_t kLeastSteps = 20;
constexpr double kLeastOthers = 0.5;

constexpr Threshold kThresholds[] = {
    {"copies from one address, of one size, on one stream", kLeastOfSteps, "of the steps",
     "the first and the last recorded step may lack theirs"},
    {"recorded steps", double(kLeastSteps), "steps",
     "in fewer, buffers that take turns may repeat by chance"},
    {"copies to the device from addresses that change", kLeastOthers, "a step",
     "where the batch, too, comes from one address, a buffer that is filled anew looks like a constant"},
    kLeastGain,
};

// Where a copy comes from: the line, the source's address (mixed), bytes, stream.
using Origin = std::tuple<uint64_t, uint16_t, uint64_t, uint32_t>;

std::optional<Origin> origin(const RuleInput& input, const HostEvent& event) {
  const model::Thread& thread = input.process.threads[event.thread];
  const uint32_t index = thread.calls[event.call].detail;
  if (event.op_class != trace::OpClass::Copy || index >= thread.call_details.size()) return std::nullopt;
  const trace::CallDetail& detail = thread.call_details[index];
  if (detail.source() == 0) return std::nullopt;
  return Origin{detail.caller(), detail.source(), detail.bytes(), detail.stream()};
}

bool copies_to_device(const RuleInput& input, const HostEvent& event) {
  for (uint32_t i = event.first_op; i < event.first_op + event.op_count; ++i)
    if (input.device->operations[input.streams->ops[i].device_op].kind == trace::RecordKind::CopyH2D)
      return true;
  return false;
}

struct Origins {
  std::set<Origin> constant;  // that each step copies from
  size_t other_copies = 0;    // from other places
};

Origins find_origins(const RuleInput& input) {
  struct Use {
    size_t steps = 0, copies = 0;
    uint32_t last_step = model::kNone;
  };
  std::map<Origin, Use> uses;
  Origins result;
  for (const HostEvent& event : input.streams->events) {
    const auto from = origin(input, event);
    if (!from || !copies_to_device(input, event)) continue;
    Use& use = uses[*from];
    ++use.copies;
    use.steps += use.last_step != event.step;
    use.last_step = event.step;
  }
  for (const auto& [from, use] : uses) {
    if (double(use.steps) >= kLeastOfSteps * double(input.streams->steps))
      result.constant.insert(from);
    else
      result.other_copies += use.copies;
  }
  return result;
}

void describe(Finding& finding, const RuleInput& input, const CopyFacts& copies) {
  const double per_step = double(copies.calls) / double(input.streams->steps);
  finding.title = fmt::format(
      "The same {:.3g} MB seem to be copied to the device in each step: same address, size and stream",
      copies.bytes / double(input.streams->steps) / 1e6);
  finding.evidence = {{"copies from the same address, of the same size, on the same stream", per_step,
                       fmt::format("a step, in each of {} steps", input.streams->steps)},
                      {"copied by them", copies.bytes / double(input.streams->steps) / 1e6, "MB a step"},
                      share_evidence(input, attribute::Category::CopyH2D)};
  finding.fix.change = StreamChange{StreamEdit::kDropCalls, "constant", "on the device"};
  finding.fix.summary =
      "if its contents do not change (they are not recorded): copy it once, before the loop, and keep it on "
      "the device";
  if (input.process.facts.contains("torch"))
    finding.fix.snippet =
        "constant = constant.to(device)  # before the loop; self.register_buffer(...) in a module";
  finding.fix.location = call_location(input.run, input.process, copies.thread, copies.call);
}

std::optional<Finding> evaluate(const RuleInput& given) {
  // Other ways to speed the same copies up are alternatives: this one starts from the recorded step.
  RuleInput input = given;
  assume_nothing(input);
  if (!input.streams || !input.device || input.streams->steps < kLeastSteps) return std::nullopt;
  const Origins origins = find_origins(input);
  if (origins.constant.empty() || double(origins.other_copies) < kLeastOthers * double(input.streams->steps))
    return std::nullopt;
  const CopyFacts copies = copy_facts(input, [&](const HostEvent& event, const model::DeviceOp&) {
    const auto from = origin(input, event);
    return from && origins.constant.contains(*from);
  });
  predict::StreamReplayInput changed = *input.assumed_streams;
  predict::drop_with_operations(changed, copies.filter());
  const double gain = input.assumed_step_ms / predict::replay(changed).step_ms;
  if (gain < kLeastSpeedup) return std::nullopt;

  Finding finding = make_finding(kRepeatedCopy, input, 1 - 1 / gain);
  finding.severity = Severity::kMinor;
  finding.is_conditional = true;
  describe(finding, input, copies);
  finding.prediction = stream_prediction(input, changed);
  if (finding.prediction)
    finding.prediction->assumptions.push_back("what is copied is the same each time");
  else
    finding.ceiling_speedup = gain;
  return finding;
}

}  // namespace

const Rule kRepeatedCopy{
    "repeated-copy",
    "Something that does not change is copied to the device in each step: a mask, a table, statistics for "
    "normalising.",
    "The same place in the program copies from the same address, the same size on the same stream, in every "
    "step, while the batches come from addresses that change: loaders' and double buffers take turns. "
    "Contents are not looked at: a single buffer that is filled anew beside such batches looks the same, so "
    "the finding is one to check, never above minor. Copies that CUDA's runtime makes for a statically "
    "linked library are seen without their address.",
    "Copy it once, before the loop; in a PyTorch module `register_buffer`.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
