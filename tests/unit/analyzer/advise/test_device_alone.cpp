// SPDX-License-Identifier: Apache-2.0
// Imported traces with device events alone: what the GPU did is known, why it idled is not.
#include <gtest/gtest.h>

#include "analyzer/advise/diagnose.h"
#include "analyzer/attribute/rank_rows.h"
#include "analyzer/model/steps.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::advise {
namespace {

// Steps of 1000 us with one kernel each, as the importer makes them of a file without calls.
test::Job device_alone(double kernel_us) {
  test::Job job;
  model::Process& process = job.run.processes.emplace_back();
  process.imported_from = "torch.profiler";
  process.sources["host calls"] = {trace::SourceState::Absent, "not in this trace", ""};
  process.threads.emplace_back();
  process.training_thread = 0;
  process.streams.emplace_back();
  job.run.kernels.push_back({"gemm", {1000, 1, 1}, {256, 1, 1}, false});
  model::Device& device = process.devices.emplace_back();
  constexpr model::Ns kStart = 1'000'000'000, kStep = 1'000'000;
  model::StepSeries series{"launches", {}};
  for (int i = 0; i < 50; ++i) {
    const model::Ns begin = kStart + i * kStep;
    device.operations.push_back({.begin = begin,
                                 .end = begin + model::Ns(1000 * kernel_us),
                                 .kernel = 0,
                                 .kind = trace::RecordKind::Kernel,
                                 .flags = 0});
    series.steps.push_back({begin, begin + kStep, 0, false});
  }
  process.start = kStart;
  process.last_seen = process.alive_until = kStart + 50 * kStep;
  job.ranks = attribute::attribute_process(job.run, 0, series);
  return job;
}

TEST(DeviceAlone, IdleTimeHasNoKnownCause) {
  test::Job job = device_alone(600);
  EXPECT_NEAR(job.rank().share(attribute::Category::Unknown), 0.4, 0.01);
  EXPECT_EQ(job.rank().time(attribute::Category::HostCompute), 0);
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  EXPECT_EQ(diagnosis.verdict.id, "cannot-tell") << diagnosis.verdict.sentence;
  EXPECT_EQ(first_complaint(diagnosis.findings), nullptr);
  EXPECT_TRUE(std::ranges::any_of(diagnosis.limits, [](const Limit& limit) {
    return limit.sentence.find("has no calls of the host") != std::string::npos;
  }));
}

TEST(DeviceAlone, ABusyGpuIsStillTheLimit) {
  test::Job job = device_alone(990);
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  EXPECT_NE(diagnosis.verdict.id, "cannot-tell") << diagnosis.verdict.sentence;
  EXPECT_TRUE(
      std::ranges::any_of(diagnosis.findings, [](const Finding& f) { return f.id == "compute-bound"; }));
}

}  // namespace
}  // namespace gpuwatch::advise
