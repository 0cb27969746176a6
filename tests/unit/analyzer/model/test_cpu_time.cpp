// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/cpu_time.h"

#include <gtest/gtest.h>

#include <tuple>

namespace gpuwatch::model {
namespace {

TEST(CpuTime, IsTheLeastWhereWorkersEnded) {
  Process process;
  for (const auto& [second, own_s, children_s] : {std::tuple{0, 1, 0}, {1, 2, 3}, {2, 3, 1}, {3, 4, 2}}) {
    MachineSample& sample = process.machine_samples.emplace_back();
    sample.time = second * 1'000'000'000ll;
    sample.cpu_ns = own_s * 1'000'000'000ll;
    sample.children_cpu_ns = children_s * 1'000'000'000ll;
  }
  const CpuTime whole = cpu_time(process, {0, 3'000'000'000});
  EXPECT_EQ(whole.own_ns, 3e9);
  EXPECT_EQ(whole.workers_ns, 4e9);  // the second in which they ended counts for none
  EXPECT_TRUE(whole.is_least);
  EXPECT_FALSE(cpu_time(process, {0, 1'000'000'000}).is_least);
}

// Of 24 workers each epoch's end together, between two samples.
TEST(CpuTime, HasThatOfChildrenThatEnded) {
  constexpr Ns kSecond = 1'000'000'000;
  const auto time_of = [](Ns others_s) {
    Process process;
    for (const auto& [second, alive_s, ended_s] : {std::tuple{0, 0, 0}, {1, 3, 0}, {2, 1, 5}, {3, 0, 7}}) {
      MachineSample& sample = process.machine_samples.emplace_back();
      sample.time = second * kSecond;
      sample.children_cpu_ns = alive_s * kSecond;
      sample.other_children_cpu_ns = others_s * kSecond;
      sample.ended_children_cpu_ns = ended_s * kSecond;
    }
    return cpu_time(process, {0, 3 * kSecond});
  };
  const CpuTime time = time_of(0);
  EXPECT_EQ(time.workers_ns, 7e9);
  EXPECT_EQ(time.other_children_ns, 0);
  EXPECT_FALSE(time.is_least);
  const CpuTime with_others = time_of(4);
  EXPECT_GT(with_others.other_children_ns, 0);
  EXPECT_EQ(with_others.workers_ns + with_others.other_children_ns, 7e9);
}

}  // namespace
}  // namespace gpuwatch::model
