// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/phases.h"

#include <algorithm>
#include <iterator>

namespace gpuwatch::model {
namespace {

using trace::OpClass;

// Stretches of [series' first step, the process's last record] that belong to no step.
std::vector<TimeSpan> between_steps(const Process& process, const StepSeries& series) {
  std::vector<TimeSpan> gaps;
  Ns cursor = series.steps.front().begin;
  for (const Step& step : series.steps) {
    if (step.begin > cursor) gaps.push_back({cursor, step.begin});
    cursor = std::max(cursor, step.end);
  }
  if (process.last_seen > cursor) gaps.push_back({cursor, process.last_seen});
  return gaps;
}

Ns end_of_warm_up(const StepSeries& series) {
  const auto first = std::find_if(series.steps.begin(), series.steps.end(),
                                  [](const Step& step) { return step.is_recorded(); });
  return first == series.steps.end() ? series.steps.back().end : first->begin;
}

// From the first to the last call on a loader in each gap; only where a batch was taken in it. Calls are in
// order of their begin, as gaps are.
void add_evaluations(const Thread& thread, const std::vector<TimeSpan>& gaps, std::vector<Phase>& phases) {
  auto call = thread.calls.begin();
  for (const TimeSpan& gap : gaps) {
    while (call != thread.calls.end() && call->begin < gap.begin) ++call;
    TimeSpan read{gap.end, gap.begin};
    bool took_batch = false;
    for (; call != thread.calls.end() && call->begin < gap.end; ++call) {
      if (!takes_batch(call->op_class)) continue;
      read.begin = std::min(read.begin, call->begin);
      read.end = std::min(std::max(read.end, call->end), gap.end);
      took_batch |= call->op_class == OpClass::LoaderNext && !call->failed();
    }
    if (took_batch) phases.push_back({PhaseKind::kEvaluation, read});
  }
}

bool overlap(const TimeSpan& a, const TimeSpan& b) {
  return a.begin < b.end && b.begin < a.end;
}

// What the job calls an evaluation, around what was read meanwhile; not where it lies within a step.
void add_reported_evaluations(const StepSeries& series, std::vector<Phase>& phases) {
  auto step = series.steps.begin();
  const size_t read = phases.size();
  size_t known = 0;
  for (const TimeSpan& time : series.evaluations) {
    while (step != series.steps.end() && step->end <= time.begin) ++step;
    if (step != series.steps.end() && overlap({step->begin, step->end}, time)) continue;
    while (known < read && phases[known].time.end <= time.begin) ++known;
    if (known == read || !overlap(phases[known].time, time)) {
      phases.push_back({PhaseKind::kEvaluation, time});
    } else {
      TimeSpan& around = phases[known].time;
      around = {std::min(around.begin, time.begin), std::max(around.end, time.end)};
    }
  }
  std::stable_sort(phases.begin(), phases.end(),
                   [](const Phase& a, const Phase& b) { return a.time.begin < b.time.begin; });
}

// What the job calls a checkpoint, where no call that saves one was seen.
void add_reported_checkpoints(const StepSeries& series, std::vector<Phase>& phases) {
  std::vector<Phase> reported;
  auto known = phases.begin();
  for (const TimeSpan& time : series.checkpoints) {
    while (known != phases.end() && known->time.end <= time.begin) ++known;
    if (known == phases.end() || !overlap(known->time, time))
      reported.push_back({PhaseKind::kCheckpoint, time});
  }
  phases.insert(phases.end(), reported.begin(), reported.end());
}

void add_calls(const Thread& thread, OpClass op_class, PhaseKind kind, std::vector<Phase>& phases) {
  Ns covered = 0;
  for (const HostCall& call : thread.calls) {
    if (call.op_class != op_class || call.begin < covered) continue;
    phases.push_back({kind, {call.begin, call.end}});
    covered = call.end;
  }
}

// In one of the phases, which are in order and do not overlap.
bool contains(const std::vector<Phase>& phases, Ns time) {
  const auto after = std::upper_bound(phases.begin(), phases.end(), time,
                                      [](Ns t, const Phase& phase) { return t < phase.time.end; });
  return after != phases.end() && time >= after->time.begin;
}

// Checkpoints that were written within an evaluation.
Ns saved_in_evaluations(const std::vector<Phase>& phases) {
  std::vector<Phase> evaluations;
  std::ranges::copy_if(phases, std::back_inserter(evaluations),
                       [](const Phase& phase) { return phase.kind == PhaseKind::kEvaluation; });
  Ns sum = 0;
  auto evaluation = evaluations.begin();
  for (const Phase& phase : phases) {
    if (phase.kind != PhaseKind::kCheckpoint) continue;
    while (evaluation != evaluations.end() && evaluation->time.end <= phase.time.begin) ++evaluation;
    if (evaluation == evaluations.end()) break;
    const TimeSpan& time = evaluation->time;
    sum += std::max<Ns>(0, std::min(time.end, phase.time.end) - std::max(time.begin, phase.time.begin));
  }
  return sum;
}

}  // namespace

std::vector<Phase> find_phases(const Process& process, const StepSeries& series) {
  std::vector<Phase> phases;
  if (series.steps.empty() || process.training_thread >= process.threads.size()) return phases;
  const Thread& thread = process.threads[process.training_thread];
  std::vector<Phase> evaluations, changes;
  add_evaluations(thread, between_steps(process, series), evaluations);
  add_reported_evaluations(series, evaluations);
  add_calls(thread, OpClass::LoaderStart, PhaseKind::kEpochChange, changes);

  add_calls(thread, OpClass::Checkpoint, PhaseKind::kCheckpoint, phases);
  add_reported_checkpoints(series, phases);
  const Ns started = end_of_warm_up(series);
  const bool has_begin =
      process.imported_from.empty();  // another profiler's trace begins anywhere in the run
  if (has_begin && process.start > 0 && started > process.start)
    phases.push_back({PhaseKind::kStartup, {process.start, started}});
  for (const Phase& change : changes)
    if (change.time.begin >= started && !contains(evaluations, change.time.begin)) phases.push_back(change);
  phases.insert(phases.end(), evaluations.begin(), evaluations.end());
  std::stable_sort(phases.begin(), phases.end(),
                   [](const Phase& a, const Phase& b) { return a.time.begin < b.time.begin; });
  return phases;
}

TimeSpan training_span(const StepSeries& series, const std::vector<Phase>& phases) {
  if (series.steps.empty()) return {};
  TimeSpan span{end_of_warm_up(series), series.steps.back().end};
  for (const Phase& phase : phases) span.end = std::max(span.end, phase.time.end);
  return span;
}

Ns total(const std::vector<Phase>& phases, PhaseKind kind) {
  Ns sum = 0;
  for (const Phase& phase : phases)
    if (phase.kind == kind) sum += phase.time.length();
  // Validate, then keep the weights if they are the best so far: an evaluation without a loader ends where
  // the next step begins, and 0.31 s of torch.save counted as evaluation as well as a checkpoint.
  return kind == PhaseKind::kEvaluation ? sum - saved_in_evaluations(phases) : sum;
}

Ns beside_steps(const StepSeries& series, const std::vector<Phase>& phases) {
  Ns sum = total(phases, PhaseKind::kEvaluation);
  auto step = series.steps.begin();
  for (const Phase& phase : phases) {
    if (phase.kind != PhaseKind::kCheckpoint) continue;
    while (step != series.steps.end() && step->end <= phase.time.begin) ++step;
    const bool is_in_step = step != series.steps.end() && step->begin <= phase.time.begin;
    if (!is_in_step) sum += phase.time.length();
  }
  return sum;
}

}  // namespace gpuwatch::model
