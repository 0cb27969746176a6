// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/pipeline_work.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace gpuwatch::model {

namespace {

using Moment = std::span<const StageReading* const>;  // the stages at one moment, by number

std::vector<const StageReading*> readings_of(const Process& process, uint32_t loader, TimeSpan span) {
  std::vector<const StageReading*> readings;
  for (const StageReading& reading : process.stage_readings)
    if (reading.loader == loader && reading.time >= span.begin && reading.time <= span.end)
      readings.push_back(&reading);
  std::ranges::stable_sort(
      readings, {}, [](const StageReading* reading) { return std::pair(reading->time, reading->stage); });
  return readings;
}

// A damaged trace may number them in any way, and have any number of them.
constexpr size_t kMostStages = 64;

bool is_whole(Moment moment) {
  if (moment.size() > kMostStages) return false;
  for (size_t i = 0; i < moment.size(); ++i)
    if (moment[i]->stage != i || moment[i]->feeds > i || (i > 0 && moment[i]->feeds == i)) return false;
  return !moment.empty() && moment.front()->elements > 0;
}

std::vector<Moment> moments_of(std::span<const StageReading* const> readings) {
  std::vector<Moment> moments;
  while (!readings.empty()) {
    const auto end = std::ranges::find_if(
        readings, [&](const StageReading* reading) { return reading->time != readings.front()->time; });
    const auto count = size_t(end - readings.begin());
    if (is_whole(readings.first(count))) moments.push_back(readings.first(count));
    readings = readings.subspan(count);
  }
  return moments;
}

// Wall time and batches of neighbouring moments of one iterator.
struct Progress {
  double wall_ns = 0, batches = 0;
};
Progress progress(const std::vector<Moment>& moments) {
  Progress sum;
  for (size_t i = 1; i < moments.size(); ++i) {
    const StageReading &before = *moments[i - 1].front(), &after = *moments[i].front();
    if (after.elements <= before.elements) continue;  // the next epoch's iterator
    sum.batches += double(after.elements - before.elements);
    sum.wall_ns += double(after.time - before.time);
  }
  return sum;
}

size_t inputs_of(Moment moment, uint32_t stage) {
  return size_t(std::ranges::count_if(moment.subspan(1),
                                      [&](const StageReading* reading) { return reading->feeds == stage; }));
}

// Elements of this stage for one of the stage that it feeds. Of several inputs, as the readers of an
// interleave are, each element that it hands on is one of theirs; what names the readers is one of them, too,
// and cheap.
double elements_for_one(Moment moment, const StageReading& stage) {
  const StageReading& consumer = *moment[stage.feeds];
  if (inputs_of(moment, stage.feeds) > 1 || stage.bytes_produced == 0 || consumer.elements == 0) return 1;
  const double taken = double(consumer.bytes_consumed) / double(consumer.elements);
  return taken * double(stage.elements) / double(stage.bytes_produced);
}

std::vector<StageWork> works_of(Moment moment) {
  std::vector<StageWork> works;
  for (const StageReading* stage : moment) {
    const double for_one =
        stage->stage == 0 ? 1 : works[stage->feeds].elements * elements_for_one(moment, *stage);
    const double share = stage->elements ? for_one / double(stage->elements) : 0;  // of what was counted
    works.push_back({.name = stage->name,
                     .feeds = stage->feeds,
                     .elements = for_one,
                     .bytes_in = share * double(stage->bytes_consumed),
                     .bytes_out = share * double(stage->bytes_produced),
                     .busy_ns = share * double(stage->processing_ns)});
  }
  return works;
}

// Bytes for an element are those of the first moment at most of them: the last batch of an epoch may be
// short.
bool is_one_size(const std::vector<Moment>& moments, size_t stage) {
  const auto size_at = [&](Moment moment) {
    const StageReading* reading = stage < moment.size() ? moment[stage] : nullptr;
    return reading && reading->elements ? double(reading->bytes_produced) / double(reading->elements) : 0;
  };
  const double first = size_at(moments.front());
  return 2 * std::ranges::count_if(moments, [&](Moment moment) { return size_at(moment) == first; }) >
         std::ssize(moments);
}

bool is_finite(const PipelineWork& work) {
  return std::ranges::all_of(work.stages, [](const StageWork& stage) {
    return std::isfinite(stage.elements) && std::isfinite(stage.bytes_in) && std::isfinite(stage.bytes_out) &&
           std::isfinite(stage.busy_ns);
  });
}

}  // namespace

double PipelineWork::busy_ns() const {
  return std::accumulate(stages.begin(), stages.end(), 0.0,
                         [](double sum, const StageWork& stage) { return sum + stage.busy_ns; });
}

std::optional<PipelineWork> pipeline_work(const Process& process, uint32_t loader, TimeSpan span) {
  const std::vector<const StageReading*> readings = readings_of(process, loader, span);
  const std::vector<Moment> moments = moments_of(readings);
  const Progress sum = progress(moments);
  if (sum.batches <= 0) return std::nullopt;
  PipelineWork work{sum.wall_ns / sum.batches, works_of(moments.back())};
  for (size_t i = 0; i < work.stages.size(); ++i) work.stages[i].is_one_size = is_one_size(moments, i);
  return is_finite(work) ? std::optional(work) : std::nullopt;
}

}  // namespace gpuwatch::model
