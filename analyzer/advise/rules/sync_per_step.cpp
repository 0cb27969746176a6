// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/advise/copies.h"
#include "analyzer/advise/host_calls.h"
#include "analyzer/advise/location.h"
#include "analyzer/advise/reported_ranges.h"
#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

extern const Rule kSyncPerStep;

namespace {

using attribute::Category;
using predict::HostEvent;
using predict::HostRole;

constexpr double kLeastPerStep = 0.5;

constexpr Threshold kThresholds[] = {
    {"synchronisations at one place", kLeastPerStep, "a step",
     "one every tenth step is what the fix proposes"},
    {"copy to the host that is a synchronisation", kFewBytes, "bytes", "a loss or a count, not data"},
    kLeastGain,
};

uint64_t caller(const RuleInput& input, const HostEvent& event) {
  const model::Thread& thread = input.process.threads[event.thread];
  return model::caller_of(thread, thread.calls[event.call]);
}

struct Place {
  std::vector<uint64_t> members;
  uint32_t thread = model::kNone, call = model::kNone;
};

// By caller: the place in the program whose synchronisations, dropped, gain most.
std::map<uint64_t, Place> places(const RuleInput& input) {
  std::map<uint64_t, Place> result;
  CopyFacts blocking = copy_facts(input, CopySource::kPageable);
  auto belongs_to_copy = blocking.filter();
  for (const HostEvent& event : input.streams->events) {
    if (!is_synchronisation(input, event) || belongs_to_copy(event)) continue;
    Place& place = result[caller(input, event)];
    place.members.push_back(uint64_t{event.thread} << 32 | event.call);
    place.thread = event.thread;
    place.call = event.call;
  }
  for (auto& [address, place] : result) std::sort(place.members.begin(), place.members.end());
  return result;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (!input.streams || !input.device) return std::nullopt;
  std::optional<predict::StreamReplayInput> best;
  double best_ms = 0;
  Place best_place;
  for (auto& [address, place] : places(input)) {
    if (double(place.members.size()) < kLeastPerStep * double(input.rank.steps.size())) continue;
    predict::StreamReplayInput changed = *input.assumed_streams;
    predict::drop_synchronisations(changed, [&](const HostEvent& event) {
      return std::binary_search(place.members.begin(), place.members.end(),
                                uint64_t{event.thread} << 32 | event.call);
    });
    double ms = predict::replay(changed).step_ms;
    if (best && ms >= best_ms) continue;
    best_ms = ms;
    best = std::move(changed);
    best_place = place;
  }
  if (!best) return std::nullopt;
  double now = input.assumed_step_ms;
  if (now < best_ms * kLeastSpeedup) return std::nullopt;
  // What the wait costs is more than the time in `sync`: whatever the host does next, a full queue would have
  // hidden.
  double lost = std::max(input.rank.share(Category::Sync), 1 - best_ms / now);

  Finding finding = make_finding(kSyncPerStep, input, lost);
  const model::HostCall& call = input.process.threads[best_place.thread].calls[best_place.call];
  std::string name = call.operation < input.run.operations.size() ? input.run.operations[call.operation].name
                                                                  : "a synchronisation";
  double per_step = double(best_place.members.size()) / double(input.rank.steps.size());
  finding.title = fmt::format(
      "The host waits for the device in {}, {:.3g} times a step; then the device waits for the host", name,
      per_step);
  finding.evidence = {{"device idle that a full queue would hide", 100 * lost, "% of the step"},
                      {"synchronisations at this place", per_step, "a step"}};
  add_reported_range(finding, input, time_of(input, Category::Sync));
  finding.fix.change = StreamChange{StreamEdit::kDropSynchronizations, "synchronisation", ""};
  bool is_python = !input.process.facts.empty() && input.process.facts.contains("torch");
  finding.fix.summary = is_python
                            ? "keep the value on the device; .item(), .cpu() or print only every 50 steps"
                            : fmt::format("drop the {} or make it every 50th step", name);
  finding.fix.snippet = is_python ? "total += loss.detach()  # and total.item() every 50 steps" : "";
  finding.fix.location = call_location(input.run, input.process, best_place.thread, best_place.call);
  finding.prediction = stream_prediction(input, *best);
  if (!finding.prediction) finding.ceiling_speedup = 1 / (1 - std::min(lost, 0.99));
  return finding;
}

}  // namespace

const Rule kSyncPerStep{
    "sync-per-step",
    "`.item()`, `.cpu()`, `print(loss)` or an explicit synchronisation in each step "
    "drains the device's queue; then "
    "the device waits until the host has filled it again.",
    "The host is blocked in a synchronisation or in a copy of few bytes to the host at one place, "
    "and the replay without it is faster: the device was idle after it. A synchronisation right "
    "after a host-to-device copy belongs to the copy.",
    "Drop it, accumulate on the device, or do it every 50 steps, at this line.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
