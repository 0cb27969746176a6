// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "analyzer/advise/copies.h"
#include "analyzer/advise/location.h"
#include "analyzer/advise/remedy_words.h"

namespace gpuwatch::advise {

extern const Rule kRepeatedCopy;

namespace {

using predict::HostEvent;

constexpr double kLeastOfSteps = 0.98;
constexpr size_t kLeastSteps = 20;
constexpr double kLeastOthers = 0.5;

constexpr Threshold kThresholds[] = {
    {"steps with a copy from the same address, of the same size, on the same stream", kLeastOfSteps,
     "of the steps", "the first and the last recorded step may be incomplete"},
    {"recorded steps", double(kLeastSteps), "steps", "in fewer, alternating buffers may repeat by chance"},
    {"H2D copies from addresses that change", kLeastOthers, "a step",
     "if the batch, too, comes from one address, a reused buffer looks like constant data"},
    kLeastGain,
};

// Where a copy comes from: calling address, source address (hashed), bytes, stream.
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
  std::set<Origin> constant;  // copied from in each step
  size_t other_copies = 0;    // copies from all other origins
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
  const double steps = double(input.streams->steps), mb_a_step = copies.bytes / steps / 1e6;
  finding.title = fmt::format(
      "Repeated H2D copy: {:.3g} MB from the same address in each step, perhaps unchanged data", mb_a_step);
  finding.evidence = {{"copies of one size from one address", double(copies.calls) / steps, "a step"},
                      {"copied by them", mb_a_step, "MB a step"},
                      share_evidence(input, attribute::Category::CopyH2D),
                      {"recorded", steps, "steps"}};
  finding.fix.change = StreamChange{StreamEdit::kDropCalls, "constant", "on the device"};
  finding.fix.summary = fmt::format(
      "Copy the {:.3g} MB that each step copies from the same address to the GPU once, before the loop, if "
      "its contents never change",
      mb_a_step);
  if (speaks_torch(input.process))
    finding.fix.snippet =
        "constant = constant.to(device)  # before the loop, or self.register_buffer(...) in a module";
  finding.fix.location = call_location(input.run, input.process, copies.thread, copies.call);
}

std::optional<Finding> evaluate(const RuleInput& given) {
  // An alternative to the other fixes of the same copies, so it starts from the recorded step.
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
  settle_with(finding, input, std::move(changed), 1 - 1 / gain);
  if (finding.prediction)
    finding.prediction->assumptions.emplace_back("the copied data is the same in each step");
  return finding;
}

}  // namespace

const Rule kRepeatedCopy{
    "repeated-copy",
    "Data that does not change is copied to the GPU in each step: a mask, a table, normalization statistics.",
    "The same line copies from the same address, the same size on the same stream, in every step, while "
    "batches come from addresses that change (loaders and double buffers alternate). Contents are not looked "
    "at: one buffer that is refilled in each step looks the same, so check this finding; its severity is "
    "never above minor. Copies that the CUDA runtime makes for a statically linked library are recorded "
    "without their address.",
    "Copy it once, before the loop; in a PyTorch module use `register_buffer`.",
    kThresholds,
    evaluate,
    attribute::CategorySet(attribute::Bottleneck::Copy) | attribute::CategorySet{attribute::Category::Sync}};

}  // namespace gpuwatch::advise
