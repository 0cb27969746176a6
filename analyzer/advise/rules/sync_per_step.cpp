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
    {"synchronization points at one line", kLeastPerStep, "a step", "rarer ones are what the fix proposes"},
    {"D2H copy that counts as a synchronization point", kFewBytes, "bytes", "a loss or a count, not data"},
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

// Synchronization points by calling address. Those right after a pageable copy belong to the copy.
std::map<uint64_t, Place> places(const RuleInput& input) {
  std::map<uint64_t, Place> result;
  CopyFacts blocking = copy_facts(input, CopySource::kPageable);
  auto belongs_to_copy = blocking.filter();
  for (const HostEvent& event : input.streams->events) {
    if (!is_sync_point(input, event) || belongs_to_copy(event)) continue;
    Place& place = result[caller(input, event)];
    place.members.push_back(uint64_t{event.thread} << 32 | event.call);
    place.thread = event.thread;
    place.call = event.call;
  }
  for (auto& [address, place] : result) std::sort(place.members.begin(), place.members.end());
  return result;
}

double mean_stall_ms(const RuleInput& input, const Place& place) {
  double sum_ns = 0;
  for (const uint64_t member : place.members) {
    const model::HostCall& call = input.process.threads[member >> 32].calls[uint32_t(member)];
    sum_ns += double(call.end - call.begin);
  }
  return sum_ns / double(place.members.size()) / 1e6;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (!input.streams || !input.device) return std::nullopt;
  std::optional<predict::StreamReplayInput> best;
  double best_ms = 0;
  Place best_place;
  for (auto& [address, place] : places(input)) {
    if (double(place.members.size()) < kLeastPerStep * double(input.rank.steps.size())) continue;
    predict::StreamReplayInput changed = *input.assumed_streams;
    predict::drop_synchronizations(changed, [&](const HostEvent& event) {
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
  // A sync stall costs more than its own time: the launch queue is empty afterwards, so the GPU also idles
  // during whatever the host does next.
  double lost = std::max(input.rank.share(Category::Sync), 1 - best_ms / now);

  Finding finding = make_finding(kSyncPerStep, input, lost);
  const model::HostCall& call = input.process.threads[best_place.thread].calls[best_place.call];
  std::string name = call.operation < input.run.operations.size() ? input.run.operations[call.operation].name
                                                                  : "a synchronization point";
  double per_step = double(best_place.members.size()) / double(input.rank.steps.size());
  finding.title = fmt::format("Sync stalls: {} blocks the host {} and costs {:.0f}% of each step", name,
                              times_a_step(per_step), 100 * lost);
  finding.evidence = {{"step time that a full launch queue would hide", 100 * lost, "% of the step"},
                      {"mean sync stall", mean_stall_ms(input, best_place), "ms"},
                      {"synchronization points at this line", per_step, "a step"}};
  add_reported_range(finding, input, time_of(input, Category::Sync));
  finding.fix.change = StreamChange{StreamEdit::kDropSynchronizations, "synchronisation", ""};
  bool is_python = !input.process.facts.empty() && input.process.facts.contains("torch");
  finding.fix.summary = is_python
                            ? "Keep the value on the GPU, and call .item(), .cpu() or print every 50 steps"
                            : fmt::format("Remove {}, or call it every 50 steps", name);
  finding.fix.snippet = is_python ? "total += loss.detach()  # total.item() every 50 steps" : "";
  finding.fix.location = call_location(input.run, input.process, best_place.thread, best_place.call);
  finding.prediction = stream_prediction(input, *best);
  if (!finding.prediction) finding.ceiling_speedup = 1 / (1 - std::min(lost, 0.99));
  return finding;
}

}  // namespace

const Rule kSyncPerStep{"sync-per-step",
                        "`.item()`, `.cpu()`, `print(loss)` or an explicit synchronization in each step "
                        "drains the launch queue, and the GPU idles until the host has refilled it.",
                        "The host is blocked in a synchronization call or a D2H copy of few bytes at one "
                        "line, and the simulated replay without it is faster because the GPU idled "
                        "afterwards. A synchronization right after an H2D copy belongs to the copy.",
                        "Remove it, accumulate on the GPU, or call it every 50 steps, at the named line.",
                        kThresholds,
                        evaluate};

}  // namespace gpuwatch::advise
