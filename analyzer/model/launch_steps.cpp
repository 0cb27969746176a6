// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/launch_steps.h"

#include <algorithm>
#include <optional>
#include <span>
#include <unordered_map>

#include "analyzer/model/captures.h"
#include "analyzer/model/kernel_tokens.h"
#include "analyzer/model/launch_period.h"
#include "analyzer/model/quantile.h"
#include "libinject/trace/layout.h"

namespace gpuwatch::model {
namespace {

using trace::OpClass;

// cudaMemcpyKind, as in CallDetail.direction.
constexpr uint8_t kHostToDevice = 1;
constexpr uint8_t kDeviceToHost = 2;

// Enough where the host stops at each of them.
constexpr size_t kFewRepeats = 3;

enum TokenKind : uint32_t { kKernel, kLaunchAddress, kCopy, kOther };

uint32_t token(TokenKind kind, uint64_t value) {
  const uint64_t spread = (value ^ value >> 32) * 0x9e3779b97f4a7c15;
  return static_cast<uint32_t>(spread >> 34) << 2 | kind;
}

struct Launches {
  std::vector<uint32_t> tokens;
  std::vector<uint32_t> calls;     // index into Thread::calls
  std::vector<double> weights;     // ns that the device worked for it
  std::vector<bool> follows_stop;  // before it the host waited for the device or did something else
};

// What the device did for each call.
struct Launched {
  uint32_t kernel = kNone;  // its token; kNone where CUPTI did not tell
  uint64_t kernels = 0;     // the same for equal sets of kernels
  double ns = 0;
  Ns end = 0;
};

std::vector<Launched> launched_by_call(const Process& process, uint32_t thread,
                                       const std::vector<uint32_t>& kernel_tokens) {
  std::vector<Launched> launched(process.threads[thread].calls.size());
  for (const auto& device : process.devices) {
    for (const auto& op : device.operations) {
      if (op.launch_thread != thread || op.launch_call >= launched.size()) continue;
      Launched& by = launched[op.launch_call];
      by.kernel = op.kernel < kernel_tokens.size() ? kernel_tokens[op.kernel] : op.kernel;
      by.kernels += (uint64_t{by.kernel} + 1) * 0xff51afd7ed558ccd;  // a graph's branches end in any order
      by.ns += static_cast<double>(op.end - op.begin);
      by.end = std::max(by.end, op.end);
    }
  }
  return launched;
}

// A dispatcher takes up to 0.1 ms from launch to launch.
constexpr Ns kPauseNs = 100'000;

// What a loop does each time round. Copies to the host and synchronisations come and go with logging; they
// count only when nothing else tells the steps apart.
class Sequence {
 public:
  Sequence(const Run& run, const Process& process, uint32_t thread,
           const std::vector<uint32_t>& kernel_tokens)
      : thread_(process.threads[thread]),
        captures_(captures(run, process)),
        launched_(launched_by_call(process, thread, kernel_tokens)) {}

  Launches launches(bool with_synchronisation) const {
    Launches all;
    bool has_waited = false;
    Ns last_end = 0;
    for (size_t i = 0; i < thread_.calls.size(); ++i) {
      const HostCall& call = thread_.calls[i];
      const std::optional<uint32_t> value = token_of(i, with_synchronisation);
      if (!value) {
        has_waited |= call.op_class == OpClass::Sync || call.op_class == OpClass::Copy;
        continue;
      }
      all.tokens.push_back(*value);
      all.calls.push_back(static_cast<uint32_t>(i));
      all.weights.push_back(launched_[i].ns);
      all.follows_stop.push_back(last_end > 0 && (has_waited || call.begin - last_end >= kPauseNs));
      has_waited = false;
      last_end = call.end;
    }
    if (is_partly_unseen(all)) all.weights.clear();
    return all;
  }
  // CUPTI failed or yielded in between: what the device did then has no weight, and is work all the same.
  // What was captured did not run: XLA captures dozens of launches for a graph that it then launches a
  // hundred times.
  bool is_partly_unseen(const Launches& all) const {
    constexpr double kMostUnseen = 0.1;  // records are lost here and there
    size_t launches = 0, unseen = 0;
    for (size_t i = 0; i < all.calls.size(); ++i) {
      const OpClass op_class = call(all.calls[i]).op_class;
      if (op_class != OpClass::Launch && op_class != OpClass::GraphLaunch) continue;
      if (is_captured(captures_, call(all.calls[i]))) continue;
      ++launches;
      unseen += all.weights[i] == 0;
    }
    return static_cast<double>(unseen) > kMostUnseen * static_cast<double>(launches);
  }
  const HostCall& call(uint32_t index) const { return thread_.calls[index]; }
  const Launched& launched(uint32_t call) const { return launched_[call]; }

 private:
  std::optional<uint32_t> token_of(size_t index, bool with_synchronisation) const {
    const HostCall& call = thread_.calls[index];
    const trace::CallDetail* detail = call_detail_of(thread_, call);
    switch (call.op_class) {
      case OpClass::Launch:
        if (launched_[index].kernel != kNone) return token(kKernel, launched_[index].kernel);
        return token(kLaunchAddress, detail ? detail->caller() : call.operation);
      case OpClass::GraphLaunch:
        return token(kOther, call.operation ^ launched_[index].kernels);
      case OpClass::Memset:
        return token(kOther, call.operation);
      case OpClass::Copy:
        if (detail && detail->direction() == kDeviceToHost && !with_synchronisation) return std::nullopt;
        return token(kCopy, detail ? detail->direction() : kHostToDevice);
      case OpClass::Sync:
        return with_synchronisation ? std::optional(token(kOther, call.operation)) : std::nullopt;
      default:
        return std::nullopt;
    }
  }

  const Thread& thread_;
  std::vector<TimeSpan> captures_;
  std::vector<Launched> launched_;
};

struct Found {
  Launches launches;
  LaunchPeriod period;
};

Found find(const Sequence& sequence, bool with_synchronisation, size_t min_repeats) {
  Found found{sequence.launches(with_synchronisation), {}};
  found.period = find_launch_period(found.launches.tokens, found.launches.weights, min_repeats);
  return found;
}

// One repeat, of the calls or their tokens.
std::span<const uint32_t> unit_of(const Found& found, const std::vector<uint32_t>& of) {
  const std::vector<size_t>& ends = found.period.ends;
  for (size_t r = 0; r + 1 < ends.size(); ++r)
    if (ends[r + 1] - ends[r] == found.period.length)
      return std::span(of).subspan(ends[r], found.period.length);
  return {};
}

// Forward, backward and update are different kernels, or one graph: one kernel again and again is what a step
// is made of, where something tells the steps apart.
bool is_one_kernel(const Sequence& sequence, const Found& found) {
  const auto tokens = unit_of(found, found.launches.tokens), calls = unit_of(found, found.launches.calls);
  return !calls.empty() && sequence.call(calls.front()).op_class == OpClass::Launch &&
         std::ranges::all_of(tokens, [&](uint32_t token) { return token == tokens.front(); });
}

// Between the layers of a network the host neither waits nor brings input.
bool holds_stop(const Sequence& sequence, const Found& found) {
  return std::ranges::any_of(unit_of(found, found.launches.calls), [&](uint32_t call) {
    const OpClass op_class = sequence.call(call).op_class;
    return op_class == OpClass::Sync || op_class == OpClass::Copy;
  });
}

// The distance that occurs most often between two stops of the host, however many others lie between them; of
// equals the shortest. 0 without one.
size_t usual_distance(const std::vector<size_t>& stops) {
  constexpr size_t kOthers = 32,
                   kMostStops = 20'000;  // bounds the table; loops show sooner
  std::unordered_map<size_t, size_t> counts;
  for (size_t i = 0; i < std::min(stops.size(), kMostStops); ++i)
    for (size_t j = i + 1; j < std::min(stops.size(), i + 1 + kOthers); ++j) ++counts[stops[j] - stops[i]];
  size_t usual = 0, most = kFewRepeats - 1;
  for (const auto& [distance, count] : counts) {
    if (count < most || (count == most && (usual == 0 || distance > usual))) continue;
    usual = distance;
    most = count;
  }
  return usual;
}

// Equal numbers of launches from stop to stop. What others cause (a core that was taken away) lies anywhere.
LaunchPeriod between_stops(const Launches& launches) {
  constexpr double kLeastCovered = 0.8;  // as for equal repeats
  std::vector<size_t> stops;
  for (size_t i = 0; i < launches.tokens.size(); ++i)
    if (launches.follows_stop[i]) stops.push_back(i);
  const size_t length = usual_distance(stops);
  if (length == 0) return {};
  const auto is_stop = [&](size_t at) { return std::ranges::binary_search(stops, at); };
  LaunchPeriod period{length, {}};
  size_t covered = length;  // the first step ends, and the last one begins, at a stop
  for (const size_t at : stops) {
    const bool follows = at >= length && is_stop(at - length);
    if (!follows && !is_stop(at + length)) continue;
    covered += follows ? length : 0;
    if (period.ends.empty() && at >= length) period.ends.push_back(at - length);
    period.ends.push_back(at);
  }
  const size_t all = launches.tokens.size();
  if (static_cast<double>(covered) < kLeastCovered * static_cast<double>(all)) return {};
  if (period.ends.back() + length <= all) period.ends.push_back(period.ends.back() + length);
  return period;
}

// A model's parameters go to the device one copy after the other: that is no step.
bool computes(const Sequence& sequence, const Found& found) {
  return std::ranges::any_of(unit_of(found, found.launches.calls), [&](uint32_t call) {
    const OpClass op_class = sequence.call(call).op_class;
    return op_class == OpClass::Launch || op_class == OpClass::GraphLaunch;
  });
}

Found find_repeats(const Sequence& sequence) {
  Found found = find(sequence, false, kMinRepeats);
  if (!computes(sequence, found)) {
    found.period = {};
    Found few = find(sequence, true, kFewRepeats);
    return holds_stop(sequence, few) && computes(sequence, few) ? few : found;
  }
  if (!is_one_kernel(sequence, found)) return found;
  LaunchPeriod larger = between_stops(found.launches);
  if (larger.length > found.period.length) found.period = std::move(larger);
  return found;
}

// Where in the period the host pauses longest on average: there one step ends and the next one begins,
// whatever kernel the period was found by. Returned as launches by which the ends move forward.
size_t longest_pause(const Thread& thread, const Launches& launches, const LaunchPeriod& period) {
  std::vector<Ns> pause(period.length, 0);
  for (size_t r = 0; r + 2 < period.ends.size(); ++r) {
    if (period.ends[r + 1] - period.ends[r] != period.length) continue;
    for (size_t i = 0; i < period.length; ++i) {
      const size_t at = period.ends[r + 1] + i;
      if (at >= launches.calls.size()) break;
      pause[i] +=
          std::max<Ns>(0, thread.calls[launches.calls[at]].begin - thread.calls[launches.calls[at - 1]].end);
    }
  }
  return static_cast<size_t>(std::max_element(pause.begin(), pause.end()) - pause.begin());
}

// A step as indices of its first launch and one past its last one.
struct Round {
  size_t first, last;
  bool follows_gap;  // something that is no step lies before it
};

std::vector<Round> rounds_of(const Found& found, size_t shift) {
  const LaunchPeriod& period = found.period;
  std::vector<Round> rounds;
  for (size_t r = 0; r + 1 < period.ends.size(); ++r) {
    const size_t first = period.ends[r] + shift, last = period.ends[r + 1] + shift;
    if (last > found.launches.calls.size()) break;
    const bool gap = last - first > 2 * period.length;
    rounds.push_back({gap ? last - period.length : first, last, first == 0 || gap});
  }
  return rounds;
}

std::vector<Step> on_host(const Thread& thread, const Launches& launches, const std::vector<Round>& rounds) {
  std::vector<Step> steps;
  for (const Round& round : rounds) {
    const Ns begin = round.follows_gap ? thread.calls[launches.calls[round.first]].begin
                                       : thread.calls[launches.calls[round.first - 1]].end;
    const Ns end = thread.calls[launches.calls[round.last - 1]].end;
    if (end > begin) steps.push_back({begin, end, 0, false});
  }
  return steps;
}

// From the end of one step's device work to that of the next; empty where a step has none.
std::vector<Step> on_device(const Sequence& sequence, const Launches& launches,
                            const std::vector<Round>& rounds) {
  std::vector<Step> steps;
  Ns last_end = 0;
  for (const Round& round : rounds) {
    Ns end = 0;
    for (size_t i = round.first; i < round.last; ++i)
      end = std::max(end, sequence.launched(launches.calls[i]).end);
    if (end == 0) return {};
    if (!round.follows_gap && last_end > 0 && end > last_end) steps.push_back({last_end, end, 0, false});
    last_end = std::max(last_end, end);
  }
  return steps;
}

Ns median_length(const std::vector<Step>& steps) {
  std::vector<Ns> lengths;
  for (const Step& step : steps) lengths.push_back(step.end - step.begin);
  return median(std::move(lengths));
}

// A host that seldom waits for the device launches steps long before they are done: its own clock tells how
// fast it fills the queue.
bool is_far_ahead(const std::vector<Step>& host, const std::vector<Step>& device) {
  constexpr double kFarAhead = 0.10;  // of the loop
  if (host.empty() || device.empty()) return false;
  const Ns loop = host.back().end - host.front().begin;
  return static_cast<double>(device.back().end - host.back().end) > kFarAhead * static_cast<double>(loop) ||
         2 * median_length(host) < median_length(device);
}

Found find_varying_repeats(const Sequence& sequence) {
  Found found{sequence.launches(false), {}};
  found.period = find_varying_period(found.launches.tokens, found.launches.weights);
  if (!computes(sequence, found)) found.period = {};
  return found;
}

std::vector<Step> steps_of(const Thread& thread, const Sequence& sequence, const Found& found) {
  if (found.period.length == 0) return {};
  const std::vector<Round> rounds = rounds_of(found, longest_pause(thread, found.launches, found.period));
  std::vector<Step> host = on_host(thread, found.launches, rounds);
  std::vector<Step> device = on_device(sequence, found.launches, rounds);
  return is_far_ahead(host, device) ? device : host;
}

}  // namespace

std::vector<Step> find_launch_steps(const Run& run, const Process& process, uint32_t thread_index) {
  const Thread& thread = process.threads[thread_index];
  const Sequence launches(run, process, thread_index, kernel_tokens(run, KernelIdentity::kLaunch));
  if (auto steps = steps_of(thread, launches, find_repeats(launches)); !steps.empty()) return steps;
  const Sequence names(run, process, thread_index, kernel_tokens(run, KernelIdentity::kName));
  if (auto steps = steps_of(thread, names, find_repeats(names)); !steps.empty()) return steps;
  return steps_of(thread, names, find_varying_repeats(names));
}

}  // namespace gpuwatch::model
