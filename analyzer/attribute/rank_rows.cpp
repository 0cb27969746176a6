// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/rank_rows.h"

#include <algorithm>

#include "analyzer/attribute/cpu_job.h"
#include "analyzer/attribute/host_walk.h"
#include "analyzer/attribute/queue_state.h"
#include "analyzer/attribute/sweep.h"

namespace gpuwatch::attribute {
namespace {

using model::Device;
using model::DeviceOp;
using model::kNone;
using model::Ns;
using model::StepSeries;
using model::TimeSpan;

// In a damaged recording a step may begin within the one before it: then it is left out, because slices are
// cut into disjoint steps.
std::vector<model::Step> recorded_steps(const StepSeries& series) {
  std::vector<model::Step> steps;
  for (const model::Step& step : series.steps) {
    const bool is_behind = steps.empty() || step.begin >= steps.back().end;
    if (step.is_recorded() && step.end > step.begin && is_behind) steps.push_back(step);
  }
  return steps;
}

// Cuts slices that tile a span around the steps at their bounds.
void cut_into_steps(const std::vector<Slice>& slices, RankAttribution& row) {
  auto slice = slices.begin();
  for (StepAttribution& step : row.steps) {
    while (slice != slices.end() && slice->end <= step.step.begin) ++slice;
    for (auto piece = slice; piece != slices.end() && piece->begin < step.step.end; ++piece) {
      Slice cut = *piece;
      cut.begin = std::max(cut.begin, step.step.begin);
      cut.end = std::min(cut.end, step.step.end);
      step.times[static_cast<size_t>(cut.category)] += cut.end - cut.begin;
      row.slices.push_back(cut);
    }
    row.wall_ns += step.step.end - step.step.begin;
    for (size_t i = 0; i < kCategoryCount; ++i) row.times[i] += step.times[i];
  }
}

RankAttribution empty_row(uint32_t process, const StepSeries& series) {
  RankAttribution row;
  row.process = process;
  row.series = series;
  for (const model::Step& step : recorded_steps(series)) row.steps.push_back({step});
  return row;
}

// Whether any recorded step lies in a span; spans must be asked for in time order.
class StepFilter {
 public:
  explicit StepFilter(const std::vector<StepAttribution>& steps) : steps_(steps) {}
  bool touches(TimeSpan span) {
    while (next_ < steps_.size() && steps_[next_].step.end <= span.begin) ++next_;
    return next_ < steps_.size() && steps_[next_].step.begin < span.end;
  }

 private:
  const std::vector<StepAttribution>& steps_;
  size_t next_ = 0;
};

// Whether nobody told us what the device did in part of a span; spans must be asked for in time order.
class Unobserved {
 public:
  explicit Unobserved(const std::vector<TimeSpan>& gaps) : gaps_(gaps) {}
  bool touches(TimeSpan span) {
    while (next_ < gaps_.size() && gaps_[next_].end <= span.begin) ++next_;
    return next_ < gaps_.size() && gaps_[next_].begin < span.end;
  }

 private:
  const std::vector<TimeSpan>& gaps_;
  size_t next_ = 0;
};

Cause busy_cause(const DeviceSegment& segment, const DeviceOp& op) {
  return {segment.category, op.launch_thread, op.launch_call, op.stream};
}

// A busy slice names its stream, not its launch: a thousand kernels in a row are one slice.
Cause merged(Cause cause) {
  if (cause.category == Category::Compute) cause.thread = cause.call = kNone;
  return cause;
}

std::vector<Slice> device_slices(const ProcessView& view, const Device& device, const RankAttribution& row,
                                 HostWalk& walk) {
  const std::vector<DeviceOp>& operations = device.operations;
  // Gaps are explained whole, also where they reach beyond the recorded steps.
  TimeSpan window{row.steps.front().step.begin, row.steps.back().step.end};
  window.begin = std::min(window.begin, operations.front().begin);
  window.end = std::max(window.end, operations.back().end);
  Tiling tiling(window.begin);
  StepFilter recorded(row.steps);
  Unobserved unobserved(view.process().unobserved);
  for (const DeviceSegment& segment : sweep(operations, view.run().kernels, window)) {
    if (!segment.idle) {
      tiling.fill(segment.end, merged(busy_cause(segment, operations[segment.operation])));
    } else if (!recorded.touches({segment.begin, segment.end})) {
      tiling.fill(segment.end, {Category::Unknown});
    } else if (unobserved.touches({segment.begin, segment.end})) {
      // Whole: what ran when a gap began or ended has no record either.
      tiling.fill(segment.end, {Category::DeviceUnobserved});
    } else {
      const DeviceOp* next = segment.operation == kNone ? nullptr : &operations[segment.operation];
      const DeviceOp* previous = segment.previous == kNone ? nullptr : &operations[segment.previous];
      walk.explain({{segment.begin, segment.end}, next, previous}, tiling);
    }
  }
  return tiling.take();
}

std::vector<Slice> unobserved_slices(const ProcessView& view, const RankAttribution& row, HostWalk& walk) {
  const TimeSpan window{row.steps.front().step.begin, row.steps.back().step.end};
  Tiling tiling(window.begin);
  for (const EmptyQueue& empty : empty_queues(view)) {
    if (empty.time.end <= tiling.cursor() || empty.time.begin >= window.end) continue;
    tiling.fill(empty.time.begin, {Category::DeviceUnobserved});
    walk.explain_thread(tiling, std::min(empty.time.end, window.end), empty.thread);
  }
  tiling.fill(window.end, {Category::DeviceUnobserved});
  return tiling.take();
}

}  // namespace

std::vector<RankAttribution> attribute_process(const model::Run& run, uint32_t process,
                                               const StepSeries& series) {
  const ProcessView view(run, process);
  std::vector<RankAttribution> rows;
  HostWalk walk(view, series.steps.size());
  for (uint32_t i = 0; i < view.process().devices.size(); ++i) {
    const Device& device = view.process().devices[i];
    if (device.operations.empty()) continue;
    RankAttribution& row = rows.emplace_back(empty_row(process, series));
    row.device = i;
    row.device_observed = true;
    if (!row.steps.empty()) cut_into_steps(device_slices(view, device, row, walk), row);
  }
  if (!rows.empty()) return rows;

  RankAttribution& row = rows.emplace_back(empty_row(process, series));
  if (row.steps.empty()) return rows;
  if (!view.feeding_threads().empty()) {
    cut_into_steps(unobserved_slices(view, row, walk), row);
  } else {
    Tiling tiling(row.steps.front().step.begin);
    CpuJob(view, series.steps.size()).explain(tiling, row.steps.back().step.end);
    cut_into_steps(tiling.slices(), row);
  }
  return rows;
}

}  // namespace gpuwatch::attribute
