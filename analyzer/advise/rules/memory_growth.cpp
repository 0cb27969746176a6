// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "analyzer/advise/device_samples.h"
#include "analyzer/advise/location.h"
#include "analyzer/advise/memory_calls.h"
#include "analyzer/advise/remedy_words.h"

namespace gpuwatch::advise {

extern const Rule kMemoryGrowth;

namespace {

using model::Ns;

constexpr size_t kLeastIncreases = 8;
constexpr double kLeastSteadiness = 0.75;
constexpr double kMostHours = 24;
constexpr double kSoonHours = 1;

constexpr Threshold kThresholds[] = {
    {"increases of GPU memory", double(kLeastIncreases), "in the recorded steps",
     "an allocator's cache takes memory in blocks of 2 to 20 MiB, and a few of them are chance"},
    {"growth in the last quarter of the steps", kLeastSteadiness, "of the mean of the last three quarters",
     "a leak grows as fast at the end; a cache that meets ever rarer larger batches slows down (0.6)"},
    {"time until the memory is full", kMostHours, "h at this rate",
     "a training of a day ends before it matters"},
};

// GPU memory of the process over time, in bytes above that at the begin of the recorded steps.
struct Level {
  Ns time;
  double bytes;
};

struct Usage {
  std::vector<Level> levels;  // in order of time
  double used_at_end = 0;     // 0: not known
  const model::HostCall* largest = nullptr;
  uint32_t thread = model::kNone, call = model::kNone;  // the allocation that added most
};

// What the calls allocated: exact, as long as nothing is freed, for a free does not say how much.
std::optional<Usage> usage_by_calls(const RuleInput& input, model::TimeSpan steps) {
  Usage usage;
  for (uint32_t t = 0; t < input.process.threads.size(); ++t) {
    const model::Thread& thread = input.process.threads[t];
    for (uint32_t c = 0; c < thread.calls.size(); ++c) {
      const model::HostCall& call = thread.calls[c];
      if (call.begin < steps.begin || call.begin >= steps.end || call.failed()) continue;
      if (frees_device_memory(input, call)) return std::nullopt;
      const trace::CallDetail* detail = model::call_detail_of(thread, call);
      if (!allocates_device_memory(input, call) || !detail || detail->bytes() == 0) continue;
      usage.levels.push_back({call.end, double(detail->bytes())});
      if (usage.largest &&
          double(detail->bytes()) <
              double(model::call_detail_of(input.process.threads[usage.thread], *usage.largest)->bytes()))
        continue;
      usage.largest = &call;
      usage.thread = t;
      usage.call = c;
    }
  }
  std::ranges::sort(usage.levels, {}, &Level::time);
  double sum = 0;
  for (Level& level : usage.levels) level.bytes = sum += level.bytes;
  return usage;
}

// What NVML says is in use, without what other processes have. Not where that is not known.
std::optional<Usage> usage_by_samples(const DeviceSamples& samples) {
  Usage usage;
  for (const model::DeviceSample* sample : samples) {
    if (sample->memory_used_bytes == 0) continue;
    if (sample->other_processes > 0 && sample->other_memory_bytes == 0) return std::nullopt;
    usage.levels.push_back(
        {sample->time, double(sample->memory_used_bytes) - double(sample->other_memory_bytes)});
  }
  return usage;
}

double level_at(const std::vector<Level>& levels, Ns time, double before) {
  const auto after = std::ranges::upper_bound(levels, time, {}, &Level::time);
  return after == levels.begin() ? before : std::prev(after)->bytes;
}

struct Growth {
  double bytes = 0;  // in the last three quarters of the steps
  size_t increases = 0;
};

// nullopt: it does not grow, or the growth levels off. The first quarter may fill caches.
std::optional<Growth> steady_growth(const std::vector<Level>& levels, model::TimeSpan steps,
                                    double at_begin) {
  Growth growth;
  double before = at_begin, fallen = 0;
  for (const Level& level : levels) {
    growth.increases += level.bytes > before;
    fallen += std::max(0.0, before - level.bytes);
    before = level.bytes;
  }
  std::array<double, 5> bounds{};
  for (size_t i = 0; i < bounds.size(); ++i)
    bounds[i] = level_at(levels, steps.begin + steps.length() / 4 * Ns(i), at_begin);
  bounds.back() = before;
  growth.bytes = bounds[4] - bounds[1];
  const bool grows = bounds[2] > bounds[1] && bounds[3] > bounds[2] && bounds[4] > bounds[3];
  const bool is_steady = bounds[4] - bounds[3] >= kLeastSteadiness * growth.bytes / 3;
  const bool is_monotone = fallen < growth.bytes / 10;
  if (growth.increases < kLeastIncreases || !grows || !is_steady || !is_monotone) return std::nullopt;
  return growth;
}

void name_fix(Finding& finding, const RuleInput& input, const Usage& usage) {
  finding.fix.change = NamedChange{"references", "released"};
  finding.fix.summary = speaks_torch(input.process)
                            ? "Find what each step keeps: store loss.item() or x.detach() instead of tensors "
                              "with their graph, and compare two torch.cuda.memory._snapshot()"
                            : "Free what each step allocates, or allocate it once before the loop";
  if (usage.largest) finding.fix.location = call_location(input.run, input.process, usage.thread, usage.call);
}

struct Known {
  Usage usage;
  Growth growth;
};

// The calls say more; but calls of the driver come without a size, and then NVML sees what they take.
std::optional<Known> known_growth(const RuleInput& input, const DeviceSamples& samples,
                                  model::TimeSpan steps) {
  if (auto usage = usage_by_calls(input, steps))
    if (const auto growth = steady_growth(usage->levels, steps, 0)) return Known{std::move(*usage), *growth};
  auto usage = usage_by_samples(samples);
  if (!usage || usage->levels.empty()) return std::nullopt;
  const auto growth = steady_growth(usage->levels, steps, usage->levels.front().bytes);
  return growth ? std::optional(Known{std::move(*usage), *growth}) : std::nullopt;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const size_t recorded = input.rank.steps.size();
  if (!input.device || recorded == 0) return std::nullopt;
  const model::TimeSpan steps{input.rank.steps.front().step.begin, input.rank.steps.back().step.end};
  const DeviceSamples samples = samples_in_steps(input);
  const auto known = known_growth(input, samples, steps);
  if (!known) return std::nullopt;
  const auto& [usage, growth] = *known;

  const double per_step = growth.bytes / (0.75 * double(recorded));
  double all = double(input.device->memory_bytes), used = usage.levels.back().bytes;
  for (const model::DeviceSample* sample : samples) {
    if (sample->memory_bytes == 0) continue;
    all = double(sample->memory_bytes);
    used = double(sample->memory_used_bytes);
  }
  const double steps_left = all > used ? (all - used) / per_step : 0;
  const double hours = steps_left * input.rank.mean_step_ms() / 3.6e6;
  if (all <= 0 || hours > kMostHours) return std::nullopt;

  Finding finding = make_finding(kMemoryGrowth, input, input.rank.share(attribute::Category::Alloc));
  finding.severity = hours <= kSoonHours ? Severity::kMajor : Severity::kMinor;
  constexpr double kMib = 1 << 20;
  finding.title = fmt::format(
      "GPU memory grows by {:.3g} MiB a step: at this rate it is full after {:.0f} more steps ({:.3g} h)",
      per_step / kMib, steps_left, hours);
  finding.evidence = {{"growth", per_step / kMib, "MiB a step"},
                      {"until the memory is full", steps_left, "steps"},
                      {"increases", double(growth.increases), "in the recorded steps"},
                      {"in use at the last look", used / kMib, "MiB"},
                      {"memory of the GPU", all / kMib, "MiB"}};
  name_fix(finding, input, usage);
  return finding;
}

}  // namespace

const Rule kMemoryGrowth{
    "memory-growth",
    "GPU memory in use grows from step to step: something keeps references to what earlier steps allocated, "
    "and the job will run out of memory.",
    "What the job allocates in the recorded steps while it frees nothing or, where it frees, NVML's memory "
    "in use without other processes: it rises in each of the last three quarters of the steps and as fast "
    "at the end. An allocator that fills its cache levels off. No speedup follows from the fix: the job "
    "ends otherwise.",
    "Keep numbers instead of tensors with their graph (`loss.item()`, `x.detach()`), and free what each "
    "step appends.",
    kThresholds,
    evaluate,
    {}};

}  // namespace gpuwatch::advise
