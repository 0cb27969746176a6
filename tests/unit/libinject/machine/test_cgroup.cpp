// SPDX-License-Identifier: Apache-2.0
// Control groups of version 1, 2 and both, nested, inside containers, unreadable; and the pressure
// that they tell.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "libinject/machine/cgroup.h"
#include "libinject/machine/pressure.h"
#include "tests/unit/libinject/made_up_machine.h"

namespace {

using namespace gpuwatch::machine;

class ControlGroup : public gpuwatch::tests::MadeUpMachine {
 protected:
  CpuLimit cpu_limit() const {
    CpuLimit limit;
    find_cpu_limit(roots(), &limit);
    return limit;
  }
  MemoryLimit memory_limit() const {
    MemoryLimit limit;
    find_memory_limit(roots(), &limit);
    return limit;
  }
};

TEST_F(ControlGroup, WithoutAnyFilesHasNoLimits) {
  EXPECT_STREQ(cgroup_version(roots()), "none");
  EXPECT_EQ(cpu_limit().quota_us, 0u);
  EXPECT_EQ(memory_limit().tightest_bytes, 0u);
  EXPECT_EQ(read_memory_below_limit(memory_limit()), UINT64_MAX);
  PressureFiles files;
  find_pressure(roots(), &files);
  EXPECT_STREQ(files.scope, "none");
  EXPECT_EQ(read_pressure_ns(files.cpu), 0u);
}

// --- version 2 --------------------------------------------------------------------------------------------

TEST_F(ControlGroup, Version2TakesTheTightestQuotaOfAllAncestors) {
  file("proc/self/cgroup", "0::/slice/job/step\n");
  const std::string base = "sys/fs/cgroup";
  file(base + "/cgroup.procs", "");
  file(base + "/slice/cpu.max", "400000 100000\n");
  file(base + "/slice/cpu.stat", "usage_usec 9\n");
  file(base + "/slice/job/cpu.max", "75000 50000\n");  // 1.5 CPUs
  file(base + "/slice/job/cpu.stat", "usage_usec 9\nnr_periods 80\nnr_throttled 17\nthrottled_usec 123456\n");
  file(base + "/slice/job/step/cpu.max", "max 100000\n");
  file(base + "/slice/job/step/cpu.stat", "usage_usec 9\n");
  file(base + "/slice/job/step/cgroup.procs", "");
  EXPECT_STREQ(cgroup_version(roots()), "2");
  const CpuLimit limit = cpu_limit();
  EXPECT_EQ(limit.quota_us, 75000u);
  EXPECT_EQ(limit.period_us, 50000u);
  EXPECT_TRUE(limit.is_version_2);
  EXPECT_EQ(read_throttling(limit).time_ns, 123456000u);
  EXPECT_EQ(read_throttling(limit).periods, 17u);
}

TEST_F(ControlGroup, Version2InAContainerWhoseOwnGroupIsTheMount) {
  file("proc/self/cgroup",
       "0::/kubepods/pod1/abc\n");  // as the host sees it; not below the container's mount
  file("sys/fs/cgroup/cpu.max", "200000 100000\n");
  file("sys/fs/cgroup/cpu.stat", "nr_throttled 3\nthrottled_usec 4\n");
  file("sys/fs/cgroup/memory.max", "1073741824\n");
  file("sys/fs/cgroup/memory.current", "805306368\n");
  file("sys/fs/cgroup/memory.stat", "anon 1\nfile 2\ninactive_file 268435456\nactive_file 5\n");
  EXPECT_EQ(cpu_limit().quota_us, 200000u);
  EXPECT_EQ(read_throttling(cpu_limit()).time_ns, 4000u);
  EXPECT_EQ(memory_limit().tightest_bytes, 1ull << 30);
  EXPECT_EQ(read_memory_below_limit(memory_limit()), 512ull << 20);  // 1024 - (768 - 256) MiB
}

TEST_F(ControlGroup, Version2MemoryIsBoundByTheFullestLevel) {
  file("proc/self/cgroup", "0::/outer/inner\n");
  const std::string base = "sys/fs/cgroup";
  file(base + "/outer/memory.max", "2000000\n");
  file(base + "/outer/memory.current", "1900000\n");  // neighbours fill the outer group
  file(base + "/outer/memory.stat", "inactive_file 0\n");
  file(base + "/outer/inner/memory.max", "1000000\n");
  file(base + "/outer/inner/memory.current", "300000\n");
  file(base + "/outer/inner/memory.stat", "inactive_file 0\n");
  EXPECT_EQ(memory_limit().tightest_bytes, 1000000u);
  EXPECT_EQ(read_memory_below_limit(memory_limit()), 100000u);
}

TEST_F(ControlGroup, Version2WithoutLimits) {
  file("proc/self/cgroup", "0::/user\n");
  file("sys/fs/cgroup/user/cpu.max", "max 100000\n");
  file("sys/fs/cgroup/user/cpu.stat", "usage_usec 9\n");
  file("sys/fs/cgroup/user/memory.max", "max\n");
  EXPECT_EQ(cpu_limit().quota_us, 0u);
  EXPECT_EQ(read_throttling(cpu_limit()).time_ns, 0u);
  EXPECT_EQ(memory_limit().tightest_bytes, 0u);
}

// --- version 1, and both ----------------------------------------------------------------------------------

TEST_F(ControlGroup, Version1) {
  file("proc/self/cgroup", "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n");
  const std::string cpu = "sys/fs/cgroup/cpu,cpuacct/docker/abc";
  file(cpu + "/cpu.cfs_quota_us", "150000\n");
  file(cpu + "/cpu.cfs_period_us", "100000\n");
  file(cpu + "/cpu.stat", "nr_periods 9\nnr_throttled 5\nthrottled_time 777000000\n");
  const std::string memory = "sys/fs/cgroup/memory/docker/abc";
  file(memory + "/memory.limit_in_bytes", "4000000\n");
  file(memory + "/memory.usage_in_bytes", "3500000\n");
  file(memory + "/memory.stat", "inactive_file 1\ntotal_inactive_file 500000\n");
  file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");  // no limit
  EXPECT_STREQ(cgroup_version(roots()), "1");
  const CpuLimit limit = cpu_limit();
  EXPECT_EQ(limit.quota_us, 150000u);
  EXPECT_FALSE(limit.is_version_2);
  EXPECT_EQ(read_throttling(limit).time_ns, 777000000u);
  EXPECT_EQ(read_throttling(limit).periods, 5u);
  EXPECT_EQ(memory_limit().count, 1u);
  EXPECT_EQ(read_memory_below_limit(memory_limit()), 1000000u);
}

TEST_F(ControlGroup, Version1WithoutAQuotaHasNoLimit) {
  file("proc/self/cgroup", "4:cpu:/\n");
  file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  file("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  file("sys/fs/cgroup/cpu/cpu.stat", "nr_throttled 0\nthrottled_time 0\n");
  EXPECT_EQ(cpu_limit().quota_us, 0u);
}

TEST_F(ControlGroup, HybridHasLimitsInVersion1AndPressureInVersion2) {
  file("proc/self/cgroup", "4:memory:/box\n1:cpu:/box\n0::/box\n");
  file("sys/fs/cgroup/cpu/box/cpu.stat", "nr_throttled 2\nthrottled_time 50\n");
  file("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "50000\n");
  file("sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
  const std::string unified = "sys/fs/cgroup/unified/box";
  file(unified + "/cgroup.procs", "1\n");
  file(unified + "/cgroup.events", "populated 1\n");
  file(unified + "/cpu.stat", "usage_usec 5\n");
  file(unified + "/cpu.pressure",
       "some avg10=1.00 avg60=0.00 avg300=0.00 total=1234\nfull avg10=0.00 total=9\n");
  file(unified + "/io.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=77\n");
  file("proc/pressure/cpu", "some avg10=1.00 avg60=0.00 avg300=0.00 total=999999\n");
  EXPECT_STREQ(cgroup_version(roots()), "1 and 2");
  EXPECT_EQ(cpu_limit().quota_us, 50000u);
  PressureFiles files;
  find_pressure(roots(), &files);
  EXPECT_STREQ(files.scope, "cgroup");
  EXPECT_EQ(read_pressure_ns(files.cpu), 1234000u);
  EXPECT_EQ(read_pressure_ns(files.io), 77000u);
  EXPECT_EQ(read_pressure_ns(files.memory), 0u);  // no such file
}

TEST_F(ControlGroup, PressureOfTheMachineWhereTheGroupTellsNone) {
  file("proc/self/cgroup", "0::/\n");
  file("proc/pressure/cpu", "some avg10=1.00 avg60=0.00 avg300=0.00 total=42\n");
  PressureFiles files;
  find_pressure(roots(), &files);
  EXPECT_STREQ(files.scope, "machine");
  EXPECT_EQ(read_pressure_ns(files.cpu), 42000u);
}

TEST_F(ControlGroup, RootGroupsPressureIsTheMachines) {
  file("proc/self/cgroup", "0::/\n");
  file("sys/fs/cgroup/cpu.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n");
  PressureFiles files;
  find_pressure(roots(), &files);
  EXPECT_STREQ(files.scope, "machine");
  EXPECT_EQ(read_pressure_ns(files.cpu), 5000u);
}

TEST_F(ControlGroup, UnreadableFilesAreNoLimit) {
  file("proc/self/cgroup", "0::/user\n");
  file("sys/fs/cgroup/user/cpu.stat", "nr_throttled 1\nthrottled_usec 1\n");
  std::filesystem::create_directories(sys_ + "/fs/cgroup/user/cpu.max");  // opens, and refuses to be read
  std::filesystem::create_directories(sys_ + "/fs/cgroup/user/memory.max");
  EXPECT_EQ(cpu_limit().quota_us, 0u);
  EXPECT_EQ(memory_limit().count, 0u);
}

TEST_F(ControlGroup, PathsTooLongToKeepAreNoLimit) {
  file("proc/self/cgroup", "0::/" + std::string(600, 'a') + "\n");
  file("sys/fs/cgroup/cgroup.procs", "");
  EXPECT_EQ(cpu_limit().quota_us, 0u);
  EXPECT_EQ(memory_limit().count, 0u);
}

TEST_F(ControlGroup, GarbageIsNoLimit) {
  for (const char* text : {"", "\n", "::::", "0:", "0::", "4:cpu", "x:cpu:/y\n0::/z"}) {
    file("proc/self/cgroup", text);
    EXPECT_EQ(cpu_limit().quota_us, 0u) << text;
    EXPECT_EQ(memory_limit().count, 0u) << text;
  }
}

}  // namespace
