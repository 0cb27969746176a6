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

}  // namespace
}  // namespace gpuwatch::model
