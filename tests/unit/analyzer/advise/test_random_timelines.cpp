// SPDX-License-Identifier: Apache-2.0
// What holds of the findings of any job with a device: none promises more than the device's critical path
// leaves, and all together gain what each gains alone. Random steps of all kinds of calls, by fixed seeds.
#include <gtest/gtest.h>

#include <random>

#include "analyzer/advise/diagnose.h"
#include "libinject/trace/layout.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using test::Action;
using trace::OpClass;
using trace::RecordKind;

constexpr size_t kSteps = 60;
constexpr unsigned kSeeds = 80;
constexpr double kRunToRun = 0.03;  // of a prediction's low end

class RandomJob {
 public:
  explicit RandomJob(unsigned seed, size_t steps = kSteps) : random_(seed) {
    std::vector<Action> step;
    for (size_t i = 4 + random_() % 30; i > 0; --i) step.push_back(action());
    step.push_back({.gap_us = up_to(900), .device_us = 20 + up_to(400)});
    job = test::make_device_job(step, steps);
    for (model::DeviceOp& op : job.process().devices[0].operations)
      if (op.kind == RecordKind::CopyD2H && op.bytes % 2) op.flags = trace::kDestinationPageable;
    test::set_shares(job, {{Category::Sync, up_to(0.2)},
                           {Category::LaunchDispatch, up_to(0.3)},
                           {Category::HostCompute, up_to(0.2)},
                           {Category::Alloc, up_to(0.1)},
                           {Category::CopyH2D, up_to(0.1)},
                           {Category::CopyStaging, up_to(0.1)}});
  }

  test::Job job;

 private:
  double up_to(double most) { return std::uniform_real_distribution<double>(0, most)(random_); }

  Action action() {
    const uint64_t caller = 0x1000 * (1 + random_() % 4), bytes = 4 + random_() % (4 << 20);
    switch (random_() % 10) {
      case 0:
        return {
            .op_class = OpClass::Sync, .gap_us = up_to(20), .cost_us = 2, .waits = true, .caller = caller};
      case 1:
        return {
            .op_class = OpClass::Free, .gap_us = up_to(20), .cost_us = 5, .waits = true, .caller = caller};
      case 2:
        return copy(RecordKind::CopyH2D, bytes, caller);
      case 3:
        return copy(RecordKind::CopyD2H, bytes, caller);
      default:
        return {.gap_us = up_to(random_() % 6 ? 20 : 400), .device_us = 1 + up_to(120), .caller = caller};
    }
  }

  Action copy(RecordKind kind, uint64_t bytes, uint64_t caller) {
    const bool pageable = kind == RecordKind::CopyH2D && random_() % 2;
    return {.op_class = OpClass::Copy,
            .gap_us = up_to(20),
            .device_us = 2 + double(bytes) / 20e3,
            .waits = random_() % 2 == 0,
            .kind = kind,
            .pageable = pageable,
            .bytes = bytes,
            .caller = caller};
  }

  std::mt19937 random_;
};

bool assumes(const Finding& finding, const char* part) {
  return std::ranges::any_of(finding.prediction->assumptions,
                             [&](const std::string& words) { return words.find(part) != std::string::npos; });
}

// Where the speed of pinned copies is a range, the device's path is one, too.
bool has_one_path(const Finding& finding) {
  return !assumes(finding, "GB/s");
}

double path_ms(const test::Job& job, const Finding& finding) {
  auto timeline = finding.timeline ? std::optional(*finding.timeline)
                                   : predict::extract_streams(job.run, job.ranks.front());
  if (!timeline) return 0;
  if (finding.prediction && assumes(finding, "at best go with it"))  // copies, of which the others are needed
    predict::drop_with_operations(*timeline, [](const predict::HostEvent& event) {
      return event.op_class == OpClass::Copy || event.role == predict::HostRole::kSync;
    });
  return predict::critical_path_ms(*timeline);
}

TEST(RandomTimelines, NothingPassesTheCriticalPath) {
  size_t predictions = 0;
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    const RandomJob random(seed);
    for (const Finding& finding : diagnose(random.job.run, random.job.ranks).findings) {
      if (!finding.prediction || finding.is_conditional || !has_one_path(finding)) continue;
      ++predictions;
      EXPECT_GE(finding.prediction->value.low, path_ms(random.job, finding) * (1 - kRunToRun) * 0.999)
          << "seed " << seed << ": " << finding.id;
    }
  }
  EXPECT_GT(predictions, kSeeds / 4);
}

// A ceiling of a change of the host; pinned copies, precision and batch change the device's work.
TEST(RandomTimelines, NoCeilingOfTheHostPassesIt) {
  size_t ceilings = 0;
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    const RandomJob random(seed, predict::kLeastReplaySteps - 1);  // too few for predictions
    for (const Finding& finding : diagnose(random.job.run, random.job.ranks).findings) {
      const bool is_of_host = finding.id == "allocator-churn" || finding.id == "host-work" ||
                              finding.id == "launch-bound" || finding.id == "checkpoint-stall";
      if (!is_of_host || !finding.ceiling_speedup) continue;
      ++ceilings;
      const auto recorded = predict::extract_streams(random.job.run, random.job.ranks.front());
      const double most = recorded->measured_step_ms / predict::critical_path_ms(*recorded);
      EXPECT_LE(*finding.ceiling_speedup, std::max(1.0, most) * 1.001)
          << "seed " << seed << ": " << finding.id;
    }
  }
  EXPECT_GT(ceilings, kSeeds / 8);
}

TEST(RandomTimelines, AllTogetherGainWhatEachGainsAlone) {
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    const RandomJob random(seed);
    const Diagnosis diagnosis = diagnose(random.job.run, random.job.ranks);
    if (!diagnosis.together) continue;
    for (const Finding& finding : diagnosis.findings) {
      if (!finding.alone || finding.is_conditional || finding.alone->metric != "step_ms") continue;
      EXPECT_LE(diagnosis.together->value.expected, finding.alone->value.expected * 1.03)
          << "seed " << seed << ": " << finding.id;
    }
  }
}

}  // namespace
}  // namespace gpuwatch::advise
