// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/steps.h"

#include <algorithm>
#include <unordered_map>

#include "analyzer/model/launch_steps.h"

namespace gpuwatch::model {
namespace {

using trace::OpClass;

constexpr double kWarmUpFactor = 2;  // times the median; a first epoch's start is never that small

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

bool is_loader_call(const HostCall& call) {
  return call.op_class == OpClass::LoaderNext || call.op_class == OpClass::LoaderStart;
}

bool returned_batch(const HostCall& call) {
  return call.op_class == OpClass::LoaderNext && !call.failed();
}

// The step that holds a moment: steps are in order and may have gaps between them.
Step* step_at(std::vector<Step>& steps, Ns time) {
  auto after =
      std::upper_bound(steps.begin(), steps.end(), time, [](Ns t, const Step& s) { return t <= s.end; });
  return after != steps.end() && time > after->begin ? &*after : nullptr;
}

struct TrainingLoader {
  uint32_t id = 0;
  uint64_t batches = 0;
  bool is_training = false;
};

// Loaders used in at least half of the steps are trained from; others belong to an evaluation between steps.
std::unordered_map<uint32_t, TrainingLoader> training_loaders(const Thread& thread,
                                                              std::vector<Step>& steps) {
  std::unordered_map<uint32_t, TrainingLoader> loaders;
  std::unordered_map<uint32_t, std::pair<const Step*, size_t>> used;
  for (const auto& call : thread.calls) {
    if (!returned_batch(call)) continue;
    auto& loader = loaders[call.correlation_or_object];
    loader.id = call.correlation_or_object;
    ++loader.batches;
    const Step* step = step_at(steps, call.end);
    auto& [last, count] = used[loader.id];
    if (step && step != last) {
      last = step;
      ++count;
    }
  }
  for (auto& [id, loader] : loaders) loader.is_training = 2 * used[id].second >= steps.size();
  return loaders;
}

// Takes evaluations out of the steps that they fell into: what lies before (optimizer) or after (loader) them
// stays.
void cut_evaluations(const Thread& thread, const std::unordered_map<uint32_t, TrainingLoader>& loaders,
                     std::vector<Step>& steps, bool step_follows) {
  std::unordered_map<Step*, Interval> evaluation;
  for (const auto& call : thread.calls) {
    if (!is_loader_call(call)) continue;
    const auto loader = loaders.find(call.correlation_or_object);
    if (loader == loaders.end() || loader->second.is_training) continue;
    Step* step = step_at(steps, call.end);
    if (!step) continue;
    const auto [known, is_new] = evaluation.emplace(step, Interval{call.begin, call.end});
    if (!is_new) known->second.end = std::max(known->second.end, call.end);
  }
  for (const auto& [step, interval] : evaluation) {
    if (step_follows) {
      step->begin = std::clamp(interval.end, step->begin, step->end);
    } else {
      step->end = std::clamp(interval.begin, step->begin, step->end);
    }
  }
}

// Step i ends with the i-th optimizer step and begins where the one before ended.
std::vector<Step> from_optimizer(const Thread& thread, const std::vector<const HostCall*>& optimizer) {
  std::vector<Step> steps;
  Ns begin = optimizer.front()->begin;
  for (const auto& call : thread.calls) {
    if (call.begin >= begin) break;
    if (is_loader_call(call) || call.op_class == OpClass::Launch || call.op_class == OpClass::GraphLaunch) {
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

void count_batches(const Process& process, const Thread& thread,
                   const std::unordered_map<uint32_t, TrainingLoader>& loaders, StepSeries& series) {
  const TrainingLoader* main = nullptr;
  for (const auto& [id, loader] : loaders) {
    if (!loader.is_training) continue;
    if (!main || loader.batches > main->batches || (loader.batches == main->batches && id < main->id))
      main = &loader;
  }
  if (!main) return;
  for (const auto& call : thread.calls) {
    if (!returned_batch(call) || call.correlation_or_object != main->id) continue;
    if (Step* step = step_at(series.steps, call.end)) ++step->batches;
  }
  const auto described = std::find_if(process.loaders.begin(), process.loaders.end(),
                                      [&](const Loader& loader) { return loader.id == main->id; });
  if (described == process.loaders.end() || described->batch_size <= 0) return;
  uint64_t batches = 0, counted = 0;
  for (const auto& step : series.steps) {
    if (step.is_warm_up) continue;
    batches += step.batches;
    ++counted;
  }
  if (counted > 0) {
    series.samples_per_step =
        static_cast<double>(batches) / static_cast<double>(counted) * described->batch_size;
  }
}

Ns median_length(const std::vector<Step>& steps) {
  std::vector<Ns> lengths;
  for (const auto& step : steps) lengths.push_back(step.end - step.begin);
  const auto middle = lengths.begin() + static_cast<ptrdiff_t>(lengths.size() / 2);
  std::nth_element(lengths.begin(), middle, lengths.end());
  return *middle;
}

// The first steps start workers, load kernels, tune and compile: they say nothing of the ones that follow.
void mark_warm_up(const Thread& thread, std::vector<Step>& steps) {
  if (steps.size() < 3) return;
  const auto limit = static_cast<Ns>(kWarmUpFactor * static_cast<double>(median_length(steps)));
  std::unordered_map<const Step*, bool> starts_something;
  for (const auto& call : thread.calls) {
    if (call.op_class != OpClass::LoaderStart && call.op_class != OpClass::ModuleLoad) continue;
    if (const Step* step = step_at(steps, std::max(call.end, call.begin + 1))) starts_something[step] = true;
  }
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    const bool is_first = i == 0;
    if (steps[i].end - steps[i].begin <= limit || !(is_first || starts_something.count(&steps[i]))) break;
    steps[i].is_warm_up = true;
  }
}

}  // namespace

StepSeries find_steps(const Run&, const Process& process) {
  StepSeries series;
  if (process.training_thread >= process.threads.size()) return series;
  const Thread& thread = process.threads[process.training_thread];

  const auto optimizer = optimizer_steps(thread);
  if (!optimizer.empty()) {
    series.source = "optimizer";
    series.steps = from_optimizer(thread, optimizer);
  } else if (series.steps = from_loader(process, thread); series.steps.size() > 1) {
    series.source = "loader";
  } else if (series.steps = find_launch_steps(process, process.training_thread); !series.steps.empty()) {
    series.source = "launches";
  } else {
    return series;
  }
  const auto loaders = training_loaders(thread, series.steps);
  cut_evaluations(thread, loaders, series.steps, series.source == "optimizer");
  mark_warm_up(thread, series.steps);
  count_batches(process, thread, loaders, series);
  return series;
}

}  // namespace gpuwatch::model
