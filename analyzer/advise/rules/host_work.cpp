// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/copies.h"
#include "analyzer/advise/host_calls.h"
#include "analyzer/advise/host_gaps.h"
#include "analyzer/advise/location.h"
#include "analyzer/advise/other_threads.h"
#include "analyzer/advise/reported_ranges.h"
#include "analyzer/advise/script_at_work.h"
#include "analyzer/advise/slow_sampler.h"
#include "analyzer/advise/steady_time.h"
#include "analyzer/advise/unseen_pipeline.h"
#include "analyzer/advise/work_on_results.h"
#include "analyzer/io/printable.h"
#include "analyzer/model/training_stacks.h"

namespace gpuwatch::advise {

extern const Rule kHostWork;

namespace {

using attribute::Category;
using trace::OpClass;

constexpr double kLeastShare = kLeastHostWork, kLeastSteps = kLeastWorkSteps;
constexpr size_t kLeastTimes = 5;

constexpr Threshold kThresholds[] = {
    {"host work (on a CPU job: sleeping and waiting)", kLeastShare, "of the step", "XProf's lower band"},
    {"steps that contain such work", kLeastSteps, "of the steps",
     "work in fewer steps is evaluation, logging or a checkpoint"},
    {"on a CPU job: steps that sleep or wait", double(kLeastTimes), "steps",
     "reinforcement learning plays many moves between two updates, and then updates many times"},
    {"time without a CUDA call at one place, against the median before a launch", kStandsOut, "times",
     "a framework is about as long before each of its launches (`launch-bound`)"},
    {"that time: at least", kShortOwnWorkNs / 1e6, "ms",
     "a framework takes 5 to 50 us between launches, an optimizer's Python loop 0.1 ms; with fewer than 20 "
     "launches a step and no CUDA graph there is no framework"},
    {"share of the stack samples in libraries that compute no model, its low end", kLeastShare, "of the step",
     "95% interval: a few samples name nothing"},
    kDrawShare,
    kOtherThreads,
    {"the script's own lines: at least", kLeastOwnMs, "ms a step", "every script has some around each step"},
    kWidestPrediction,
    {"that time: always from", kLongDispatchNs / 1e6, "ms", "no framework takes as long"},
};

struct HostWork {
  predict::StreamReplayInput without;
  size_t steps = 0;
  double ns = 0;
  uint32_t call = model::kNone;  // the CUDA call after the longest piece of it
  std::vector<size_t> places;    // events that it lies before
};

// A loss and a few metrics are no more.
constexpr uint64_t kLeastResultBytes = 64;

// Work on results that the host waits for right before it (a metric's `.tolist()`) needs them no longer.
void drop_results(const RuleInput& input, HostWork& work) {
  std::vector<bool> drops(work.without.events.size());
  size_t done = 0;  // what lies before is of other work
  for (const size_t place : work.places) {
    size_t first = place;
    while (first > done && work.without.events[first - 1].role == predict::HostRole::kSync) --first;
    const bool is_first = first == std::exchange(done, place);
    if (is_first ||
        !copies(input, work.without.events[first - 1], trace::RecordKind::CopyD2H, kLeastResultBytes))
      continue;
    std::fill(drops.begin() + ptrdiff_t(first) - 1, drops.begin() + ptrdiff_t(place), true);
  }
  const predict::HostEvent* const events = work.without.events.data();
  predict::drop_synchronizations(
      work.without, [&](const predict::HostEvent& event) { return drops[size_t(&event - events)]; });
}

// Work that ends with a copy to the GPU makes the batch: done elsewhere, it is the loader that pins its
// result.
void pin_batches(const RuleInput& input, HostWork& work) {
  const model::Loader* loader = input.configured_loader();
  if (!loader || loader->pin_memory != 1) return;
  const CopyFacts pageable = copy_facts(input, CopySource::kPageable);
  const predict::EventFilter is_pageable = pageable.filter();
  std::vector<bool> pins(work.without.events.size());
  for (const size_t place : work.places)
    for (size_t i = place; i < pins.size() && !pins[i] && is_pageable(work.without.events[i]); ++i)
      pins[i] = true;
  const predict::HostEvent* const events = work.without.events.data();
  predict::make_asynchronous(
      work.without, [&](const predict::HostEvent& event) { return pins[size_t(&event - events)]; },
      pinned_bandwidth(*input.device), input.device->operations, enqueue_cost_ns(work.without));
}

// Its copies that may go with it. Made on the GPU, what it ends in (noise, a mask) is not copied there; a
// loader's batch is, wherever it is made. Nor is anything copied either way for work on what it fetched right
// before: of 353 ms a step an optimizer in host memory left 149 without its own time, and 111 on the GPU.
std::vector<bool> copies_with(const RuleInput& input, const HostWork& work) {
  const std::vector<predict::HostEvent>& events = input.assumed_streams->events;
  std::vector<bool> goes(events.size());
  for (const size_t place : work.places) {
    size_t first = place, last = place;
    bool fetches = false;
    const auto fetch = [&](const predict::HostEvent& event) {
      const bool is_result = copies(input, event, trace::RecordKind::CopyD2H, kLeastResultBytes);
      fetches |= is_result;
      return is_result || event.role == predict::HostRole::kSync;
    };
    while (first > 0 && fetch(events[first - 1])) --first;
    while (last < events.size() && copies(input, events[last], trace::RecordKind::CopyH2D, 1)) ++last;
    if (!fetches) first = place;
    if (fetches || !input.configured_loader())
      std::fill(goes.begin() + ptrdiff_t(first), goes.begin() + ptrdiff_t(last), true);
  }
  return goes;
}

// The fix leaves open whether the work moves to another process, or to the GPU, or is done less often.
void allow_for_copies(Finding& finding, const RuleInput& input, const HostWork& work) {
  if (!finding.prediction || !finding.timeline) return;
  const std::vector<bool> goes = copies_with(input, work);
  predict::StreamReplayInput uncopied = *finding.timeline;
  const predict::HostEvent* const begin = uncopied.events.data();
  predict::drop_with_operations(
      uncopied, [&](const predict::HostEvent& event) { return goes[size_t(&event - begin)]; });
  const auto best = stream_prediction(input, uncopied);
  if (!best || best->value.low >= finding.prediction->value.low) return;
  finding.prediction->value.low = best->value.low;
  finding.prediction->speedup.high = best->speedup.high;
  finding.prediction->assumptions.emplace_back(
      "the copies from and to the GPU around this work stay, and at best go with it");
}

HostWork find_host_work(const RuleInput& input, const HostGaps& gaps) {
  HostWork work{*input.assumed_streams};
  std::vector<predict::HostEvent>& events = work.without.events;
  double longest = 0;
  uint32_t last_step = model::kNone;
  for (size_t i = 0; i < events.size(); ++i) {
    predict::HostEvent& event = events[i];
    const double work_ns = std::min(event.gap_ns, gaps.own_ns()[i]);
    if (work_ns <= 0) continue;
    event.gap_ns -= work_ns;
    work.ns += work_ns;
    work.steps += event.step != last_step;
    last_step = event.step;
    work.places.push_back(i);
    if (work_ns <= longest) continue;
    longest = work_ns;
    work.call = event.call;
  }
  drop_results(input, work);
  pin_batches(input, work);
  return work;
}

std::vector<model::TimeSpan> intervals_of(const RuleInput& input, const HostCalls& calls) {
  const auto& all = input.process.threads[input.process.training_thread].calls;
  std::vector<model::TimeSpan> intervals;
  for (const uint32_t member : calls.members) intervals.push_back({all[member].begin, all[member].end});
  return intervals;
}

Finding describe(const RuleInput& input, double share, uint32_t call) {
  Finding finding = make_finding(kHostWork, input, share);

  finding.fix.change = StreamChange{StreamEdit::kShortenHostWork, "own work", "every 50 steps"};
  if (call != model::kNone)
    finding.fix.location = call_location(input.run, input.process, input.process.training_thread, call);
  return finding;
}

// The fix is read before the title: it says which work.
void name_work(Finding& finding, const RuleInput& input, const std::vector<model::TimeSpan>& time, double ms,
               const char* elsewhere) {
  const auto seen = model::main_training_function(input.run, input.process, time);
  if (seen) finding.fix.location = seen->frame.location();
  const bool has_name = seen && !seen->frame.function.starts_with('<');
  const std::string work = has_name ? "the work in " + io::printable(seen->frame.function)
                                    : fmt::format("the {:.3g} ms of work that each step does", ms);
  finding.fix.summary = fmt::format("Move {} to {} or the GPU, or run it every 50 steps", work, elsewhere);
}

// Then the waits are the bottleneck (sync-per-step).
bool would_be_hidden(const RuleInput& input, const HostGaps& gaps, const HostWork& work) {
  return step_ms_without_waits(input) <= predict::replay(work.without).step_ms * kLeastSpeedup &&
         !is_mostly_on_results(input, gaps);
}

// Sleeps, waits for a child process, and what attribution found to be waiting for an answer.
HostCalls waiting_calls(const RuleInput& input) {
  if (input.process.training_thread >= input.process.threads.size()) return {};
  const std::vector<model::HostCall>& calls = input.process.threads[input.process.training_thread].calls;
  std::vector<bool> is_answer(calls.size());
  for (const attribute::Slice& slice : input.rank.slices)
    if (slice.category == Category::HostWait && slice.thread == input.process.training_thread &&
        slice.call < calls.size())
      is_answer[slice.call] = true;
  return training_calls(input, [&](const model::HostCall& call) {
    return pauses(call.op_class) || is_answer[size_t(&call - calls.data())];
  });
}

bool mostly(const RuleInput& input, const HostCalls& waits, std::initializer_list<OpClass> classes) {
  const HostCalls part = training_calls(input, [&](const model::HostCall& call) {
    return std::ranges::find(classes, call.op_class) != classes.end();
  });
  return 2 * part.total_ns > waits.total_ns;
}

// The place is the wait's own: the CUDA call after it may be anywhere.
void describe_waiting(Finding& finding, const RuleInput& input, const HostCalls& waits, double ms) {
  const bool is_network = mostly(input, waits, {OpClass::Receive, OpClass::Send, OpClass::Poll});
  finding.title = fmt::format(
      "Host work: the training thread {} {:.3g} ms a step",
      is_network ? "waits for answers over the network" : "sleeps or waits for a child process", ms);
  finding.fix.summary =
      is_network ? fmt::format(
                       "Move the {:.3g} ms of waiting for answers to another thread or process, or ask "
                       "every 50 steps",
                       ms)
                 : fmt::format(
                       "Move the {:.3g} ms of sleeping or waiting off the training thread, or do it "
                       "every 50 steps",
                       ms);
  finding.may_have_to_stay = mostly(input, waits, {OpClass::Sleep});
  if (waits.call != model::kNone)
    finding.fix.location = call_location(input.run, input.process, input.process.training_thread, waits.call);
}

std::optional<Finding> on_device(const RuleInput& input) {
  const HostGaps gaps(input);
  const double share = gaps.own_share();
  if (share < kLeastShare) return std::nullopt;
  HostWork work = find_host_work(input, gaps);
  if (double(work.steps) < kLeastSteps * double(input.rank.steps.size())) return std::nullopt;
  if (would_be_hidden(input, gaps, work)) return std::nullopt;
  const double steps = double(input.rank.steps.size()), ms = work.ns / steps / 1e6;
  Finding finding = describe(input, share, work.call);
  finding.title =
      fmt::format("Host work: the GPU idles while the script runs {:.3g} ms a step between CUDA calls", ms);
  finding.evidence = {{"GPU idle while the script runs", 100 * share, "% of the step"},
                      {"such work occurs in", 100 * double(work.steps) / steps, "% of the steps"},
                      {"script between CUDA calls", ms, "ms a step"}};
  const std::vector<model::TimeSpan> time = time_of(input, {Category::HostCompute});
  add_reported_range(finding, input, time);
  // A metric of what the model gave is nothing for the loader's workers.
  const bool is_on_results = is_mostly_on_results(input, gaps);
  name_work(finding, input, time, ms, is_on_results ? "another process" : another_process(input));
  if (input.rank.share(Category::HostWait) > input.rank.share(Category::HostCompute))
    describe_waiting(finding, input, waiting_calls(input), ms);
  settle_with(finding, input, std::exchange(work.without, {}), share);
  allow_for_copies(finding, input, work);
  return finding;
}

// Sleeping: a simulated environment, polling, rate limits.
std::optional<Finding> on_cpu(const RuleInput& input) {
  const HostCalls calls = waiting_calls(input);
  const double share = calls.share(input);
  if (share < kLeastShare || calls.steps < kLeastTimes) return std::nullopt;
  const double steps = double(input.rank.steps.size()), ms = calls.total_ns / steps / 1e6;
  Finding finding = describe(input, share, calls.call);
  describe_waiting(finding, input, calls, ms);
  finding.evidence = {{"sleeping, or waiting for a child process or an answer", 100 * share, "% of the step"},
                      {"such a wait occurs in", 100 * double(calls.steps) / steps, "% of the steps"},
                      {"sleeping or waiting", ms, "ms a step"}};
  add_reported_range(finding, input, intervals_of(input, calls));
  settle_without(finding, input, calls);
  return finding;
}

std::optional<Finding> of_training_thread(const RuleInput& input) {
  const bool is_on_cpu = !input.device && !input.device_hidden();
  if (input.rank.steps.empty())
    return is_on_cpu ? script_at_work(kHostWork, input, kLeastShare) : std::nullopt;
  if (auto sampler = slow_sampler(kHostWork, input)) return sampler;
  if (input.device && input.streams) return on_device(input);
  if (input.device_hidden()) return std::nullopt;
  auto waits = on_cpu(input), work = script_at_work(kHostWork, input, kLeastShare);
  if (!waits || !work) return waits ? waits : work;
  return waits->lost_share > work->lost_share ? waits : work;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  auto finding = of_training_thread(input);
  // Without a loader they are input-own-code's; those of Keras and tf.data are input-decode's.
  if (finding || !input.configured_loader() || unseen_pipeline(input)) return finding;
  return other_threads_finding(kHostWork, input);
}

}  // namespace

const Rule kHostWork{
    "host-work",
    "The script works on the thread that launches kernels: metrics, tokenization, a CPU optimizer, "
    "environment steps, augmentation.",
    "The GPU is idle and the training thread makes no CUDA call at the same place in most steps, for longer "
    "than before its other launches. Launches at even distances are `launch-bound`; work that the launch "
    "queue would hide if the "
    "host did not wait for the GPU is `sync-per-step`, unless it works on the data that it waited for (a "
    "metric). On a CPU job: the training thread sleeps, waits for "
    "a child process or for an answer over the network while a loader brings the data (a tracking server's), "
    "or was seen (stack "
    "samples) in a library that computes no model, such as scikit-learn, "
    "pandas or gymnasium, or in the script's own lines, from which it moved on within 25 us three times, "
    "called by "
    "the script and not by a module, or in a hook that modules or the backward pass call. On any job: a "
    "thread of the script next to it that holds the GIL, while training waits for the GIL or a core; a "
    "sampler that takes long to draw the indices of a batch or "
    "of an epoch, "
    "which "
    "PyTorch asks within next() on the training thread. A long call into C from the script's own lines "
    "cannot "
    "be distinguished from the model there.",
    "Move it to DataLoader workers or to the GPU, write it as operations on whole tensors, or run it every N "
    "steps, at the named line. CUDA graphs do not help.",
    kThresholds,
    evaluate,
    {attribute::Category::HostCompute, attribute::Category::HostWait, attribute::Category::LaunchDispatch},
    true};

}  // namespace gpuwatch::advise
