// SPDX-License-Identifier: Apache-2.0
// Where each nanosecond of a rank's recorded steps went. attribute() sweeps the device timeline first (first
// match wins), gives only device-idle time to the host walk, and only data waits to the loader's workers. The
// categories of a step sum to its wall time exactly, in integer nanoseconds.
#pragma once

#include <array>
#include <cstddef>
#include <iterator>
#include <string_view>
#include <vector>

#include "analyzer/model/run.h"
#include "analyzer/model/steps.h"

namespace gpuwatch::attribute {

enum class Group { DeviceBusy, DeviceWait, Input, Host, Rest };

// What limits a job. The verdict, the rows of the report and `healthy` add up the same categories.
// Machine: others took what the job needs; it says nothing of the job.
enum class Bottleneck { Compute, Input, Copy, Communication, Host, Machine, Unobserved, Other };
inline constexpr std::string_view kBottleneckWords[] = {"compute",       "data loading", "exposed copies",
                                                        "communication", "host work",    "waiting for a core",
                                                        "GPU not seen",  "other"};
inline constexpr size_t kBottleneckCount = std::size(kBottleneckWords);
constexpr std::string_view words(Bottleneck bottleneck) {
  return kBottleneckWords[static_cast<size_t>(bottleneck)];
}

enum class Category : uint8_t {
#define GW_CATEGORY(identifier, name, words, group, bottleneck) identifier,
#include "analyzer/attribute/category.def"
#undef GW_CATEGORY
};

struct CategoryInfo {
  std::string_view name;   // "input.transform"
  std::string_view words;  // "transforms"
  Group group;
  Bottleneck bottleneck;
};

inline constexpr CategoryInfo kCategories[] = {
#define GW_CATEGORY(identifier, name, words, group, bottleneck) \
  {name, words, Group::group, Bottleneck::bottleneck},
#include "analyzer/attribute/category.def"
#undef GW_CATEGORY
};
inline constexpr size_t kCategoryCount = std::size(kCategories);
constexpr const CategoryInfo& info(Category category) {
  return kCategories[static_cast<size_t>(category)];
}

using CategoryTimes = std::array<model::Ns, kCategoryCount>;

// A piece of a step with one cause; pieces tile the step. `thread`/`call` name the host call that explains it
// (indices into the rank's process), kNone where none does.
struct Slice {
  model::Ns begin;
  model::Ns end;
  Category category;
  uint32_t thread = model::kNone;
  uint32_t call = model::kNone;
  uint16_t stream = 0xffff;  // device stream that was busy, or that the device waited for
};

struct StepAttribution {
  model::Step step;
  CategoryTimes times{};
};

// One row per (process, device); a process that never used a device has one row with device "cpu".
struct RankAttribution {
  uint32_t process = model::kNone;  // index into Run::processes
  uint32_t device = model::kNone;   // index into Process::devices, kNone: "cpu" (or unobserved)
  bool device_observed = false;     // device busy and idle are known
  model::StepSeries series;
  std::vector<StepAttribution> steps;  // recorded steps, warm-up excluded
  CategoryTimes times{};               // sum over steps
  model::Ns wall_ns = 0;               // sum of step lengths; equals the sum of times
  std::vector<Slice> slices;           // in time order over the recorded steps
  model::Ns time(Category category) const { return times[static_cast<size_t>(category)]; }
  model::Ns time(Group group) const;
  model::Ns time(Bottleneck bottleneck) const;
  // Of the recorded wall time, in each of the three views.
  double share(auto part) const { return wall_ns ? double(time(part)) / double(wall_ns) : 0; }
  // Waiting for data that another loader setting may shorten: workers start but once an epoch.
  double steady_input_share() const { return share(Group::Input) - share(Category::InputStartup); }
  double mean_step_ms() const;
};

// The intervals of the recorded steps whose time is of this category.
std::vector<model::TimeSpan> times_of(const RankAttribution& rank, Category category);

std::vector<RankAttribution> attribute(const model::Run& run);

}  // namespace gpuwatch::attribute
