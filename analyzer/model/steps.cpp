// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/steps.h"

#include <algorithm>
#include <functional>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "analyzer/model/captures.h"
#include "analyzer/model/device_steps.h"
#include "analyzer/model/launch_steps.h"
#include "analyzer/model/loader_steps.h"
#include "analyzer/model/outermost_calls.h"
#include "analyzer/model/pauses.h"
#include "analyzer/model/quantile.h"
#include "analyzer/model/ranges.h"
#include "analyzer/model/roles.h"

namespace gpuwatch::model {
namespace {

using trace::OpClass;

// Steps of one optimizer object that belong together.
struct OptimizerLife {
  uint32_t id = 0;
  std::vector<const HostCall*> steps;

  Ns begin() const { return steps.front()->begin; }
  Ns end() const { return steps.back()->end; }
};

// Stretches in which no other optimizer steps.
std::vector<OptimizerLife> turns(const std::vector<const HostCall*>& calls) {
  std::vector<OptimizerLife> result;
  for (const auto* call : calls) {
    if (result.empty() || result.back().id != call->correlation_or_object)
      result.push_back({call->correlation_or_object, {}});
    result.back().steps.push_back(call);
  }
  return result;
}

// An object whose turns are long trains by itself in each of them: a fold, a federated client, a stage. (A
// new optimizer often gets the address of one that is gone.) The turns of others are parts of one iteration.
std::vector<OptimizerLife> lives(const std::vector<const HostCall*>& calls) {
  constexpr size_t kLongTurn = 8;
  std::unordered_map<uint32_t, size_t> steps_of, turns_of, index;
  const std::vector<OptimizerLife> all = turns(calls);
  for (const OptimizerLife& turn : all) {
    steps_of[turn.id] += turn.steps.size();
    ++turns_of[turn.id];
  }
  std::vector<OptimizerLife> result;
  for (const OptimizerLife& turn : all) {
    const bool is_alone = steps_of[turn.id] >= kLongTurn * turns_of[turn.id];
    const auto [at, is_new] = index.emplace(turn.id, result.size());
    if (is_alone || is_new) {
      at->second = result.size();
      result.push_back(turn);
      continue;
    }
    auto& known = result[at->second].steps;
    known.insert(known.end(), turn.steps.begin(), turn.steps.end());
  }
  return result;
}

// Several optimizers (a GAN's two) step at different points of one iteration: the one that steps most often
// counts; of equals, the one whose turn comes last. Those that step before and after it count as well.
std::vector<const HostCall*> optimizer_steps(const Thread& thread) {
  auto candidates =
      lives(outermost(thread, [](const HostCall& c) { return c.op_class == OpClass::OptimizerStep; }));
  std::reverse(candidates.begin(), candidates.end());
  std::ranges::stable_sort(candidates, std::greater{}, [](const auto& life) { return life.steps.size(); });
  std::map<Ns, const OptimizerLife*> chosen;  // by begin, disjoint
  for (const OptimizerLife& life : candidates) {
    const auto after = chosen.lower_bound(life.end());
    if (after == chosen.begin() || std::prev(after)->second->end() <= life.begin())
      chosen.emplace(life.begin(), &life);
  }
  std::vector<const HostCall*> steps;
  for (const auto& [begin, life] : chosen) steps.insert(steps.end(), life->steps.begin(), life->steps.end());
  return steps;
}

// Rounds launched one by one come before those that a graph replays, and none after.
bool is_followed_by_graphs(const Thread& thread, const std::vector<const HostCall*>& optimizer) {
  size_t graphs = 0;
  for (const auto& call : thread.calls) {
    if (call.op_class != OpClass::GraphLaunch || call.end <= optimizer.front()->begin) continue;
    if (call.begin < optimizer.back()->end) return false;
    ++graphs;
  }
  return graphs > 2 * optimizer.size();
}

// Where the optimizer's step is part of a graph, the graph's launches step from then on and it is not called
// again: those seen are the rounds before the capture, which itself is seen only where it was recorded.
bool is_in_graph(const Run& run, const Process& process, const std::vector<const HostCall*>& optimizer) {
  const std::vector<TimeSpan> capturing = captures(run, process);
  return is_followed_by_graphs(process.threads[process.training_thread], optimizer) ||
         std::any_of(optimizer.begin(), optimizer.end(),
                     [&](const HostCall* step) { return is_captured(capturing, *step); });
}

// The loader goes on for long after the last of them: torch.compile of PyTorch 2.0 takes the hooks off that
// record an optimizer's steps. An evaluation at the end reads another loader.
bool ended_early(const Thread& thread, const std::vector<const HostCall*>& optimizer) {
  constexpr size_t kFewest = 20, kTimes = 3;
  const Ns last = optimizer.back()->end;
  std::unordered_set<uint32_t> loaders;
  size_t before = 0, after = 0;
  for (const auto& call : thread.calls) {
    if (!returned_batch(call)) continue;
    if (call.begin < last) loaders.insert(call.correlation_or_object);
    before += call.begin < last;
    after += call.begin >= last && loaders.count(call.correlation_or_object);
  }
  return after >= kFewest && after > kTimes * before;
}

// The step that holds a moment, SIZE_MAX if none: steps are in order and may have gaps between them.
size_t step_at(const std::vector<Step>& steps, Ns time) {
  const auto after =
      std::upper_bound(steps.begin(), steps.end(), time, [](Ns t, const Step& s) { return t <= s.end; });
  return after != steps.end() && time > after->begin ? static_cast<size_t>(after - steps.begin()) : SIZE_MAX;
}

Ns median_length(const std::vector<Step>& steps) {
  std::vector<Ns> lengths;
  for (const auto& step : steps) lengths.push_back(step.end - step.begin);
  return median(std::move(lengths));
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

// Calls of torch.nn.Module.eval, in order of their begin.
std::vector<const HostCall*> eval_calls(const Run& run, const Thread& thread) {
  const auto named = std::find_if(run.operations.begin(), run.operations.end(),
                                  [](const Operation& operation) { return operation.name == kModuleEval; });
  if (named == run.operations.end()) return {};
  const auto operation = static_cast<uint16_t>(named - run.operations.begin());
  return outermost(thread, [&](const HostCall& call) { return call.operation == operation; });
}

// When the thread asks a loader for data: then training goes on, or an epoch begins (frozen parts of a model
// are set to eval() there).
std::vector<Ns> batch_requests(const Thread& thread) {
  std::vector<Ns> times;
  for (const auto& call : thread.calls)
    if (takes_batch(call.op_class)) times.push_back(call.begin);
  return times;
}

// An evaluation that reads no loader begins where the model is told so, and ends where a step of the usual
// length began: training says nothing when it goes on. Of steps that end with the optimizer's.
std::vector<TimeSpan> evaluations_by_mode(const Run& run, const Thread& thread,
                                          const std::vector<Step>& steps) {
  std::vector<TimeSpan> found;
  const Ns usual = median_length(steps);
  const std::vector<Ns> requests = batch_requests(thread);
  for (const HostCall* call : eval_calls(run, thread)) {
    const size_t step = step_at(steps, call->end);
    if (step == SIZE_MAX) continue;
    const auto request = std::lower_bound(requests.begin(), requests.end(), call->end);
    const Ns resumed = std::min(steps[step].end - usual, request == requests.end() ? INT64_MAX : *request);
    const TimeSpan time{call->begin, resumed};
    if (time.length() < usual / 2) continue;  // shorter than what steps differ by
    if (found.empty() || time.begin >= found.back().end) found.push_back(time);
  }
  return found;
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

// What nearly all steps have; else their mean. A framework that takes a batch ahead, or drops one at the end
// of an epoch, leaves a step or two with one batch more or less: 7.9 samples are nobody's batch.
double usual(std::vector<double> samples, size_t steps) {
  constexpr double kNearlyAll = 0.9;
  if (steps == 0) return 0;
  double sum = 0;
  for (const double of_step : samples) sum += of_step;
  std::ranges::sort(samples);
  const double middle = samples.empty() ? 0 : samples[samples.size() / 2];
  const auto same = std::ranges::count(samples, middle);
  return double(same) >= kNearlyAll * double(steps) ? middle : sum / double(steps);
}

// A step's batches are those of the loader that gave it most; what it zips them with are no further samples.
void count_batches(const Process& process, const std::vector<TakenBatch>& taken, const LoaderSet& evaluation,
                   StepSeries& series) {
  std::unordered_map<uint32_t, int> batch_size;
  for (const auto& loader : process.loaders) batch_size.emplace(loader.id, loader.batch_size);
  std::unordered_map<uint32_t, uint32_t> in_step;
  std::vector<double> samples;
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
    if (!step.is_recorded() || size == batch_size.end() || size->second <= 0) continue;
    samples.push_back(static_cast<double>(step.batches) * size->second);
  }
  const auto steps = std::ranges::count_if(series.steps, &Step::is_recorded);
  series.samples_per_step = usual(std::move(samples), static_cast<size_t>(steps));
}

// Time between two recordings of one process lies in it.
bool holds_gap(const std::vector<TimeSpan>& unobserved, TimeSpan span) {
  return std::ranges::any_of(
      unobserved, [&](const TimeSpan& gap) { return gap.begin >= span.begin && gap.end <= span.end; });
}

// From the begin of each to the next one's, as the profiler has them; the last one of a recording to its own
// end.
std::vector<Step> from_profiler(const std::vector<TimeSpan>& reported,
                                const std::vector<TimeSpan>& unobserved) {
  std::vector<Step> steps;
  for (size_t i = 0; i < reported.size(); ++i) {
    const bool has_next =
        i + 1 < reported.size() && !holds_gap(unobserved, {reported[i].begin, reported[i + 1].begin});
    const Ns end = has_next ? reported[i + 1].begin : reported[i].end;
    if (end > reported[i].begin) steps.push_back({reported[i].begin, end, 0, false});
  }
  return steps;
}

// All of a trace without marks: somebody chose what to profile. One interval for each recording.
std::vector<Step> whole_recordings(const Process& process) {
  std::vector<Step> steps;
  Ns begin = process.start;
  for (const TimeSpan& gap : process.unobserved) {
    if (gap.begin > begin && gap.end <= process.last_seen) steps.push_back({begin, gap.begin, 0, false});
    begin = std::max(begin, gap.end);
  }
  if (process.last_seen > begin) steps.push_back({begin, process.last_seen, 0, false});
  return steps;
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
  if (series.steps = from_profiler(process.reported_steps, process.unobserved); !series.steps.empty()) {
    series.source = "profiler";
  } else if (!optimizer.empty() && !is_in_graph(run, process, optimizer) && !ended_early(thread, optimizer)) {
    series.source = "optimizer";
    series.steps = from_optimizer(thread, optimizer);
  } else if (series.steps = find_range_steps(run, thread); !series.steps.empty()) {
    series.source = "nvtx";
  } else if (series.steps = find_loader_steps(process, thread); series.steps.size() > 1) {
    series.source = "loader";
  } else if (series.steps = find_launch_steps(run, process, process.training_thread); !series.steps.empty()) {
    series.source = "launches";
    auto aligned = align_to_ranges(run, thread, series.steps);
    if (!aligned.empty()) series = {"nvtx", std::move(aligned)};
  } else if (!process.imported_from.empty()) {
    series.source = "launches";
    if (thread.calls.empty()) series.steps = find_device_steps(run, process);
    if (series.steps.empty()) series = {"trace", whole_recordings(process)};
  } else {
    return series;
  }
  if (!process.imported_from.empty())
    std::erase_if(series.steps, [&](const Step& s) {
      return holds_gap(process.unobserved, {s.begin, s.end});
    });
  const auto taken = taken_batches(process, series.steps);
  const auto evaluation = evaluation_loaders(taken, series.steps.size());
  series.evaluations = seldom(ranges_with_meaning(run, thread, RangeMeaning::kEvaluation), series.steps);
  if (series.source == "optimizer" && series.evaluations.empty() && evaluation.empty())
    series.evaluations = seldom(evaluations_by_mode(run, thread, series.steps), series.steps);
  series.checkpoints = seldom(ranges_with_meaning(run, thread, RangeMeaning::kCheckpoint), series.steps);
  cut_evaluations(thread, evaluation, series.evaluations, series.steps, series.source == "optimizer");
  mark_warm_up(thread, series.steps);
  series.pauses = find_pauses(run, process, series.steps);
  mark_interrupted(series.pauses, series.steps);
  count_batches(process, taken, evaluation, series);
  return series;
}

}  // namespace gpuwatch::model
