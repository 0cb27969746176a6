// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/page_faults.h"

#include <gtest/gtest.h>

namespace gpuwatch::model {
namespace {

constexpr Ns kSecond = 1'000'000'000;

// A sample each second: the workers' counters by then.
Process sampled(const std::vector<uint64_t>& faults, const std::vector<double>& cpu_s, double system_share) {
  Process process;
  for (size_t i = 0; i < faults.size(); ++i) {
    MachineSample sample{};
    sample.time = Ns(i) * kSecond;
    sample.children_minor_faults = faults[i];
    sample.children_cpu_ns = Ns(cpu_s[i] * 1e9);
    sample.children_system_ns = Ns(cpu_s[i] * system_share * 1e9);
    process.machine_samples.push_back(sample);
  }
  return process;
}

// Forked workers fault once on what they share with their parent: that is the first second, and no rate.
TEST(PageFaults, AreThoseOfMostSeconds) {
  const Process process = sampled({0, 90'000, 100'000, 110'000, 120'000}, {0, 1, 2, 3, 4}, 0.4);
  const auto faults = page_faults_of_workers(process, {0, 10 * kSecond});
  ASSERT_TRUE(faults);
  EXPECT_DOUBLE_EQ(faults->per_cpu_s, 10'000);
  EXPECT_NEAR(faults->system_share, 0.4, 1e-9);
}

// It takes its counts with it.
TEST(PageFaults, LeaveOutTheSecondInWhichAWorkerEnded) {
  const Process process = sampled({0, 10'000, 2'000, 12'000, 22'000}, {0, 1, 0.2, 1.2, 2.2}, 0.4);
  const auto faults = page_faults_of_workers(process, {0, 10 * kSecond});
  ASSERT_TRUE(faults);
  EXPECT_NEAR(faults->per_cpu_s, 10'000, 1);
}

TEST(PageFaults, AreNotToldByTwoSamplesOrAnOlderTrace) {
  EXPECT_FALSE(page_faults_of_workers(sampled({0, 10'000, 20'000}, {0, 1, 2}, 0.4), {0, 10 * kSecond}));
  EXPECT_FALSE(page_faults_of_workers(sampled({0, 0, 0, 0, 0}, {0, 1, 2, 3, 4}, 0), {0, 10 * kSecond}));
}

}  // namespace
}  // namespace gpuwatch::model
