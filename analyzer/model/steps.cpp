// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/steps.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "analyzer/model/captures.h"
#include "analyzer/model/launch_steps.h"
#include "analyzer/model/quantile.h"
#include "analyzer/model/ranges.h"
#include "analyzer/model/roles.h"

namespace gpuwatch::model {
namespace {

using trace::OpClass;

// Calls of a class on a thread that are not inside another one of that class.
template <typename Wanted>
std::vector<const HostCall*> outermost(const Thread& thread, Wanted wanted) {
  std::vector<const HostCall*> calls;
  for (const auto& call : thread.calls) {
    if (wanted(call) && (calls.empty() || call.begin >= calls.back()->end)) calls.push_back(&call);
  }
  return calls;
}

// Several optimizers (a GAN's two) step at different points of one iteration: the one that steps most often
// counts; of equals, the one whose turn comes last.
std::vector<const HostCall*> optimizer_steps(const Thread& thread) {
  const auto all = outermost(thread, [](const HostCall& c) { return c.op_class == OpClass::OptimizerStep; });
  std::unordered_map<uint32_t, size_t> count;
  for (const auto* call : all) ++count[call->correlation_or_object];
  size_t most = 0;
  uint32_t chosen = 0;
  std::unordered_map<uint32_t, bool> seen;
  for (const auto* call : all) {
    const uint32_t id = call->correlation_or_object;
    if (seen[id]) continue;
    seen[id] = true;
    if (count[id] >= most) {
      most = count[id];
      chosen = id;
    }
  }
  std::vector<const HostCall*> steps;
  for (const auto* call : all) {
    if (call->correlation_or_object == chosen) steps.push_back(call);
  }
  return steps;
}

// Where one is part of a graph, the graph's launches step from then on and it is not called again: those seen
// are the rounds before the capture.
bool is_in_graph(const Run& run, const Process& process, const std::vector<const HostCall*>& optimizer) {
  const std::vector<TimeSpan> capturing = captures(run, process);
  return std::any_of(optimizer.begin(), optimizer.end(),
                     [&](const HostCall* step) { return is_captured(capturing, *step); });
}

bool returned_batch(const HostCall& call) {
  return call.op_class == OpClass::LoaderNext && !call.failed();
}

// The step that holds a moment, SIZE_MAX if none: steps are in order and may have gaps between them.
size_t step_at(const std::vector<Step>& steps, Ns time) {
  const auto after =
      std::upper_bound(steps.begin(), steps.end(), time, [](Ns t, const Step& s) { return t <= s.end; });
  return after != steps.end() && time > after->begin ? static_cast<size_t>(after - steps.begin()) : SIZE_MAX;
}

struct TakenBatch {
  size_t step;
  uint32_t loader;
};

void add_taken(const Thread& thread, const std::vector<Step>& steps, std::vector<TakenBatch>& taken) {
  for (const auto& call : thread.calls) {
    if (!returned_batch(call)) continue;
    const size_t step = step_at(steps, call.end);
    if (step != SIZE_MAX) taken.push_back({step, call.correlation_or_object});
  }
}

// In order of steps. Of batches that other threads hand on, the step in which they were taken counts.
std::vector<TakenBatch> taken_batches(const Process& process, const std::vector<Step>& steps) {
  std::vector<TakenBatch> taken;
  if (!is_fed_by_other_threads(process)) {
    add_taken(process.threads[process.training_thread], steps, taken);
    return taken;
  }
  for (const Thread& thread : process.threads) add_taken(thread, steps, taken);
  std::stable_sort(taken.begin(), taken.end(),
                   [](const TakenBatch& a, const TakenBatch& b) { return a.step < b.step; });
  return taken;
}

using LoaderSet = std::unordered_set<uint32_t>;

// Loaders that an evaluation between two training steps reads from: they never give a step its only batches
// (as one that training has changed to does), and are not in every step (as the second of two zipped ones
// is).
LoaderSet evaluation_loaders(const std::vector<TakenBatch>& taken, size_t steps) {
  struct Use {
    size_t last_step = SIZE_MAX, steps = 0, steps_alone = 0;
  };
  std::vector<uint32_t> first_loader(steps, 0);
  std::vector<bool> is_used(steps, false), is_mixed(steps, false);
  for (const auto& batch : taken) {
    if (!is_used[batch.step]) first_loader[batch.step] = batch.loader;
    is_used[batch.step] = true;
    if (first_loader[batch.step] != batch.loader) is_mixed[batch.step] = true;
  }
  std::unordered_map<uint32_t, Use> uses;
  for (const auto& batch : taken) {
    Use& use = uses[batch.loader];
    if (use.last_step == batch.step) continue;
    use.last_step = batch.step;
    ++use.steps;
    use.steps_alone += !is_mixed[batch.step];
  }
  LoaderSet evaluation;
  for (const auto& [loader, use] : uses) {
    if (2 * use.steps < steps && 2 * use.steps_alone < use.steps) evaluation.insert(loader);
  }
  return evaluation;
}

// What is reported in every other step is part of the step, whatever its name.
std::vector<TimeSpan> seldom(std::vector<TimeSpan> reported, const std::vector<Step>& steps) {
  if (2 * reported.size() > steps.size()) reported.clear();
  return reported;
}

// Takes evaluations out of the steps that they fell into: what lies before (optimizer) or after (loader) them
// stays.
void cut_evaluations(const Thread& thread, const LoaderSet& evaluation, const std::vector<TimeSpan>& reported,
                     std::vector<Step>& steps, bool step_follows) {
  std::map<size_t, TimeSpan> by_step;
  const auto cut = [&](size_t step, TimeSpan time) {
    if (step == SIZE_MAX) return;
    const auto [known, is_new] = by_step.emplace(step, time);
    if (is_new) return;
    known->second.begin = std::min(known->second.begin, time.begin);
    known->second.end = std::max(known->second.end, time.end);
  };
  for (const TimeSpan& range : reported) {
    // One that holds steps, or begins outside of any, is something else, or needs no cut.
    const size_t step = step_at(steps, range.end);
    if (step == step_at(steps, range.begin)) cut(step, range);
  }
  if (!evaluation.empty()) {
    for (const auto& call : thread.calls) {
      if (takes_batch(call.op_class) && evaluation.count(call.correlation_or_object))
        cut(step_at(steps, call.end), {call.begin, call.end});
    }
  }
  for (const auto& [index, interval] : by_step) {
    Step& step = steps[index];
    if (step_follows) {
      step.begin = std::clamp(interval.end, step.begin, step.end);
    } else {
      step.end = std::clamp(interval.begin, step.begin, step.end);
    }
  }
}

// Step i ends with the i-th optimizer step and begins where the one before ended.
std::vector<Step> from_optimizer(const Thread& thread, const std::vector<const HostCall*>& optimizer) {
  std::vector<Step> steps;
  Ns begin = optimizer.front()->begin;
  for (const auto& call : thread.calls) {
    if (call.begin >= begin) break;
    if (takes_batch(call.op_class) || launches_kernels(call.op_class)) {
      begin = call.begin;
      break;
    }
  }
  for (const auto* call : optimizer) {
    steps.push_back({begin, call->end, 0, false});
    begin = call->end;
  }
  return steps;
}

// Step i begins with the i-th next() of the loader that gave most batches.
std::vector<Step> from_loader(const Process& process, const Thread& thread) {
  std::unordered_map<uint32_t, size_t> batches;
  uint32_t main = 0;
  for (const auto& call : thread.calls) {
    if (!returned_batch(call)) continue;
    const size_t count = ++batches[call.correlation_or_object];
    if (count > batches[main] || batches.size() == 1) main = call.correlation_or_object;
  }
  const auto nexts = outermost(thread, [&](const HostCall& c) {
    return c.op_class == OpClass::LoaderNext && c.correlation_or_object == main;
  });
  std::vector<Step> steps;
  for (size_t i = 0; i < nexts.size(); ++i) {
    if (nexts[i]->failed()) continue;
    const Ns end = i + 1 < nexts.size() ? nexts[i + 1]->begin : std::max(nexts[i]->end, process.last_seen);
    steps.push_back({nexts[i]->begin, end, 0, false});
  }
  return steps;
}

// A step's batches are those of the loader that gave it most; what it zips them with are no further samples.
void count_batches(const Process& process, const std::vector<TakenBatch>& taken, const LoaderSet& evaluation,
                   StepSeries& series) {
  std::unordered_map<uint32_t, int> batch_size;
  for (const auto& loader : process.loaders) batch_size.emplace(loader.id, loader.batch_size);
  std::unordered_map<uint32_t, uint32_t> in_step;
  double samples = 0, steps = 0;
  for (size_t i = 0; i < taken.size();) {
    Step& step = series.steps[taken[i].step];
    in_step.clear();
    uint32_t main = 0;
    size_t j = i;
    for (; j < taken.size() && taken[j].step == taken[i].step; ++j) {
      if (evaluation.count(taken[j].loader)) continue;
      const uint32_t count = ++in_step[taken[j].loader];
      if (count > step.batches) {
        step.batches = count;
        main = taken[j].loader;
      }
    }
    i = j;
    const auto size = batch_size.find(main);
    if (step.is_warm_up || size == batch_size.end() || size->second <= 0) continue;
    samples += static_cast<double>(step.batches) * size->second;
  }
  for (const auto& step : series.steps) steps += !step.is_warm_up;
  if (steps > 0) series.samples_per_step = samples / steps;
}

// From the begin of each to the next one's, as the profiler has them; the last one to its own end.
std::vector<Step> from_profiler(const std::vector<TimeSpan>& reported) {
  std::vector<Step> steps;
  for (size_t i = 0; i < reported.size(); ++i) {
    const Ns end = i + 1 < reported.size() ? reported[i + 1].begin : reported[i].end;
    if (end > reported[i].begin) steps.push_back({reported[i].begin, end, 0, false});
  }
  return steps;
}

Ns median_length(const std::vector<Step>& steps) {
  std::vector<Ns> lengths;
  for (const auto& step : steps) lengths.push_back(step.end - step.begin);
  return median(std::move(lengths));
}

// The first steps start workers, load kernels, tune and compile: they say nothing of the ones that follow.
void mark_warm_up(const Thread& thread, std::vector<Step>& steps) {
  if (steps.size() < 3) return;
  const auto limit = static_cast<Ns>(kWarmUpFactor * static_cast<double>(median_length(steps)));
  std::unordered_set<size_t> starts_something;
  for (const auto& call : thread.calls) {
    if (call.op_class != OpClass::LoaderStart && call.op_class != OpClass::ModuleLoad &&
        call.op_class != OpClass::Capture)
      continue;
    starts_something.insert(step_at(steps, call.end));
  }
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    const bool is_first = i == 0;
    if (steps[i].end - steps[i].begin <= limit || !(is_first || starts_something.count(i))) break;
    steps[i].is_warm_up = true;
  }
}

}  // namespace

StepSeries find_steps(const Run& run, const Process& process) {
  StepSeries series;
  if (process.training_thread >= process.threads.size()) return series;
  const Thread& thread = process.threads[process.training_thread];

  const auto optimizer = optimizer_steps(thread);
  if (series.steps = from_profiler(process.reported_steps); !series.steps.empty()) {
    series.source = "profiler";
  } else if (!optimizer.empty() && !is_in_graph(run, process, optimizer)) {
    series.source = "optimizer";
    series.steps = from_optimizer(thread, optimizer);
  } else if (series.steps = find_range_steps(run, thread); !series.steps.empty()) {
    series.source = "nvtx";
  } else if (series.steps = from_loader(process, thread); series.steps.size() > 1) {
    series.source = "loader";
  } else if (series.steps = find_launch_steps(process, process.training_thread); !series.steps.empty()) {
    series.source = "launches";
    auto aligned = align_to_ranges(run, thread, series.steps);
    if (!aligned.empty()) series = {"nvtx", std::move(aligned)};
  } else if (!process.imported_from
                  .empty()) {  // somebody chose what to profile: one interval, whatever it holds
    series.source = "trace";
    series.steps = {{process.start, process.last_seen, 0, false}};
  } else {
    return series;
  }
  const auto taken = taken_batches(process, series.steps);
  const auto evaluation = evaluation_loaders(taken, series.steps.size());
  series.evaluations = seldom(ranges_with_meaning(run, thread, RangeMeaning::kEvaluation), series.steps);
  series.checkpoints = seldom(ranges_with_meaning(run, thread, RangeMeaning::kCheckpoint), series.steps);
  cut_evaluations(thread, evaluation, series.evaluations, series.steps, series.source == "optimizer");
  mark_warm_up(thread, series.steps);
  count_batches(process, taken, evaluation, series);
  return series;
}

}  // namespace gpuwatch::model
