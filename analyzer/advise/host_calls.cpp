// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/host_calls.h"
#include "analyzer/advise/ceiling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "analyzer/model/quantile.h"

namespace gpuwatch::advise {
namespace {

using model::HostCall;
using model::Ns;

// Calls inside these are part of data loading, which has its own rules.
bool is_loader_call(trace::OpClass op_class) {
  return takes_batch(op_class) || op_class == trace::OpClass::Fetch;
}

const model::Thread* training_thread(const RuleInput& input) {
  const uint32_t index = input.process.training_thread;
  return index < input.process.threads.size() ? &input.process.threads[index] : nullptr;
}

double bytes_of(const model::Thread& thread, const HostCall& call) {
  const bool is_io = detail_kind(call.op_class) == trace::DetailKind::kIo;
  return is_io && call.detail < thread.io_details.size() ? double(thread.io_details[call.detail].bytes()) : 0;
}

// Mean of a block bootstrap with blocks of sqrt(n) steps, as in the replays: neighboring steps are
// correlated, and blocks keep slow stretches together.
double resampled_mean(const std::vector<double>& values, std::mt19937& random) {
  const size_t block = std::max<size_t>(1, size_t(std::sqrt(double(values.size()))));
  std::uniform_int_distribution<size_t> begin(0, values.size() - 1);
  double sum = 0;
  for (size_t i = 0, at = 0; i < values.size(); ++i, ++at) {
    if (i % block == 0) at = begin(random);
    sum += values[at % values.size()];
  }
  return sum / double(values.size());
}

predict::Estimate shortened_steps(const RuleInput& input, const HostCalls& calls, double kept) {
  constexpr int kResamples = 40;
  std::vector<double> after;
  for (size_t i = 0; i < input.rank.steps.size(); ++i) {
    const model::Step& step = input.rank.steps[i].step;
    after.push_back((double(step.end - step.begin) - (1 - kept) * calls.ns_of_step[i]) / 1e6);
  }
  double sum = 0;
  for (double ms : after) sum += ms;
  std::mt19937 random(20240229);
  std::vector<double> means;
  for (int i = 0; i < kResamples; ++i) means.push_back(resampled_mean(after, random));
  std::sort(means.begin(), means.end());
  return predict::beyond_run_to_run(
      {means[kResamples / 20], sum / double(after.size()), means[kResamples - 1 - kResamples / 20]});
}

// A training thread that asks for its batch earlier may have to wait for it. The replay's input does not say
// which batch a call followed, or whether it lay between two epochs (a gc.collect() after each), so the
// longest times between batches and between epochs are assumed to hold the longest calls.
predict::LoaderReplayInput earlier_consumer(const predict::LoaderReplayInput& recorded,
                                            const HostCalls& calls, double kept) {
  predict::LoaderReplayInput changed = recorded;
  std::vector<double*> times;
  for (predict::ReplayEpoch& epoch : changed.epochs) {
    if (epoch.is_counted) times.push_back(&epoch.own_ns);
    for (predict::BatchCost& batch : epoch.batches)
      if (batch.counted) times.push_back(&batch.think_ns);
  }
  std::vector<double> removed = calls.ns_of_step;
  std::ranges::sort(removed, std::greater<>());
  std::ranges::sort(times, std::greater<>(), [](const double* time) { return *time; });
  double left = 0, more = 0;  // of the times; to be removed from them, of steps of several batches
  for (size_t i = 0; i < times.size(); ++i) {
    const double less = i < removed.size() ? (1 - kept) * removed[i] : 0;
    more += std::max(0.0, less - *times[i]);
    *times[i] = std::max(0.0, *times[i] - less);
    left += *times[i];
  }
  for (double* time : times) *time *= left > 0 ? std::max(0.0, 1 - more / left) : 1;
  return changed;
}

// A timeline's events are CUDA calls and data stalls. All other calls lie in the gap before the next event,
// or have events within.
predict::StreamReplayInput shortened_calls(const RuleInput& input, const HostCalls& calls, double kept) {
  predict::StreamReplayInput changed = *input.assumed_streams;
  std::vector<double> inside = ns_before_events(input, changed.events, calls);
  for (size_t i = 0; i < std::min(inside.size(), calls.following_ns.size()); ++i)
    inside[i] += calls.following_ns[i];
  for (size_t i = 0; i < inside.size(); ++i)
    changed.events[i].gap_ns = std::max(0.0, changed.events[i].gap_ns - (1 - kept) * inside[i]);
  predict::shorten_with_operations(changed, events_within(input, calls), kept);
  return changed;
}

}  // namespace

void add_fetches(const RuleInput& input, HostCalls& calls) {
  const model::Thread* thread = training_thread(input);
  if (!thread) return;
  std::vector<uint32_t> waiting;  // since the last launch
  size_t next = 0;                // of the writes
  for (const predict::HostEvent& event : input.streams->events) {
    if (event.thread != input.process.training_thread) continue;
    const Ns begin = thread->calls[event.call].begin;
    const size_t before = next;
    while (next < calls.members.size() && thread->calls[calls.members[next]].begin < begin) ++next;
    if (next > before) {
      calls.fetches.insert(calls.fetches.end(), waiting.begin(), waiting.end());
      waiting.clear();
    }
    if (is_sync_point(input, event))
      waiting.push_back(event.call);
    else if (event.op_count > 0)
      waiting.clear();
  }
}

void add_what_follows(const RuleInput& input, HostCalls& calls) {
  const model::Thread* thread = training_thread(input);
  const std::vector<predict::HostEvent>& events = input.streams->events;
  if (!thread || calls.members.empty()) return;
  calls.following_ns.assign(events.size(), 0);
  std::vector<std::pair<size_t, double>> followers;  // the event after a call, and the time until it
  std::map<uint32_t, double> longest_gaps;           // of the steps without such a call
  std::set<uint32_t> steps_with_calls;
  size_t next = 0;  // of the calls
  for (size_t i = 0; i < events.size(); ++i) {
    const predict::HostEvent& event = events[i];
    if (event.thread != input.process.training_thread) continue;
    double& longest = longest_gaps[event.step];
    longest = std::max(longest, event.gap_ns);
    const Ns begin = thread->calls[event.call].begin;
    if (next < calls.members.size() && begin >= thread->calls[calls.members[next]].begin)
      steps_with_calls.insert(event.step);
    size_t last = calls.members.size();  // of those that have ended
    while (next < calls.members.size() && thread->calls[calls.members[next]].end <= begin) last = next++;
    if (last == calls.members.size()) continue;
    const double since_ns = double(begin - thread->calls[calls.members[last]].end);
    followers.emplace_back(i, std::min(since_ns, event.gap_ns));
  }
  std::vector<double> usual;
  for (const auto& [step, gap_ns] : longest_gaps)
    if (!steps_with_calls.contains(step)) usual.push_back(gap_ns);
  if (usual.size() <= steps_with_calls.size()) return;  // not rare: nothing to compare with
  const double usual_ns = model::median(std::move(usual));
  for (const auto& [i, ns] : followers) {
    calls.following_ns[i] = std::max(0.0, ns - usual_ns);
    calls.total_following_ns += calls.following_ns[i];
  }
}

predict::EventFilter events_within(const RuleInput& input, const HostCalls& calls) {
  return [&input, &calls](const predict::HostEvent& event) {
    if (calls.members.empty() || event.thread != input.process.training_thread) return false;
    const std::vector<HostCall>& all = input.process.threads[event.thread].calls;
    if (std::ranges::binary_search(calls.fetches, event.call)) return true;
    const HostCall& inner = all[event.call];
    const auto after = std::ranges::upper_bound(calls.members, inner.begin, {},
                                                [&](uint32_t member) { return all[member].begin; });
    return after != calls.members.begin() && inner.end <= all[*(after - 1)].end;
  };
}

HostCalls training_calls(const RuleInput& input, const CallFilter& which) {
  HostCalls result;
  const auto& steps = input.rank.steps;
  result.ns_of_step.assign(steps.size(), 0);
  const model::Thread* thread = training_thread(input);
  if (!thread || steps.empty()) return result;
  Ns covered = 0, longest = 0, in_loader = 0;
  size_t step = 0, counted_step = steps.size();
  for (uint32_t i = 0; i < thread->calls.size(); ++i) {
    const HostCall& call = thread->calls[i];
    while (step < steps.size() && steps[step].step.end <= call.begin) ++step;
    if (step == steps.size()) break;
    if (call.begin < steps[step].step.begin) continue;
    if (call.begin < covered) {  // nested in the previous match
      result.bytes += bytes_of(*thread, call);
      continue;
    }
    if (call.begin < in_loader) continue;
    if (is_loader_call(call.op_class)) in_loader = call.end;
    if (!which(call)) continue;
    covered = call.end;
    const Ns length = std::min(call.end, steps[step].step.end) - call.begin;
    result.ns_of_step[step] += double(length);
    result.total_ns += double(length);
    result.bytes += bytes_of(*thread, call);
    result.members.push_back(i);
    ++result.calls;
    result.steps += counted_step != step;
    counted_step = step;
    if (length <= longest) continue;
    longest = length;
    result.call = i;
  }
  return result;
}

std::vector<double> ns_before_events(const RuleInput& input, const std::vector<predict::HostEvent>& events,
                                     const HostCalls& calls) {
  std::vector<double> result(events.size(), 0);
  const model::Thread* thread = training_thread(input);
  if (!thread) return result;
  const auto begin_of = [&](size_t i) {
    return input.process.threads[events[i].thread].calls[events[i].call].begin;
  };
  size_t first = 0;
  for (uint32_t member : calls.members) {
    const HostCall& call = thread->calls[member];
    while (first < events.size() && begin_of(first) <= call.begin) ++first;
    // A call may contain several events: torch.save copies and writes one tensor after the other.
    for (size_t i = first; i < events.size(); ++i) {
      const Ns end = begin_of(i), begin = end - Ns(events[i].gap_ns);
      result[i] += double(std::max<Ns>(0, std::min(call.end, end) - std::max(call.begin, begin)));
      if (end >= call.end) break;
    }
  }
  return result;
}

bool write_models(const HostCalls& writes) {
  constexpr double kLeastBytes = 1 << 20;
  return writes.steps > 0 && writes.bytes >= kLeastBytes * double(writes.steps);
}

std::string times_a_step(double calls) {
  constexpr double kRare = 0.5;
  const bool is_whole = std::abs(calls - std::round(calls)) < 0.05;
  if (is_whole && std::round(calls) == 1) return "once a step";
  if (calls > 0 && calls < kRare) return fmt::format("every {:.0f} steps", 1 / calls);
  return fmt::format("{:.{}f}", calls, is_whole || calls >= 10 ? 0 : 1) + " times a step";
}

std::optional<predict::Prediction> prediction_without(const RuleInput& input, const HostCalls& calls,
                                                      double kept) {
  if (calls.ns_of_step.size() != input.rank.steps.size() || calls.calls == 0) return std::nullopt;
  if (input.streams) return stream_prediction(input, shortened_calls(input, calls, kept));
  if (input.device_hidden()) return std::nullopt;
  if (input.loader)
    return loader_prediction(input, earlier_consumer(*input.loader, calls, kept), input.loader_check,
                             input.loader_setting());
  const predict::ReplayCheck exact{input.now_ms, input.now_ms, input.rank.steps.size()};
  return predict::step_prediction(exact, shortened_steps(input, calls, kept), input.now_ms, 0);
}

void settle_without(Finding& finding, const RuleInput& input, const HostCalls& calls, double kept) {
  const double saved = (1 - kept) * calls.share(input);
  const bool has_steps = calls.ns_of_step.size() == input.rank.steps.size() && calls.calls > 0;
  if (input.streams && has_steps)
    return settle_with(finding, input, shortened_calls(input, calls, kept), saved);
  finding.prediction = prediction_without(input, calls, kept);
  if (!finding.prediction) finding.ceiling_speedup = ceiling_without(input, saved);
}

bool is_sync_point(const RuleInput& input, const predict::HostEvent& event) {
  if (event.op_class == trace::OpClass::Sync && event.role == predict::HostRole::kSync) return true;
  if (event.role != predict::HostRole::kBlockOnOwn || event.op_count != 1) return false;
  const model::DeviceOp& op = input.device->operations[input.streams->ops[event.first_op].device_op];
  return op.kind == trace::RecordKind::CopyD2H;
}

}  // namespace gpuwatch::advise
