// SPDX-License-Identifier: Apache-2.0
// What the sampler makes of the kernel's files, on machines made up here: control groups of version 1, 2 and
// both, nested, inside containers, unreadable; pressure, disks, workers, NUMA nodes.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "libinject/context/cgroup.h"
#include "libinject/context/disk.h"
#include "libinject/context/memory.h"
#include "libinject/context/mounts.h"
#include "libinject/context/pressure.h"
#include "libinject/context/topology.h"
#include "libinject/context/workers.h"

namespace {

using namespace gpuwatch::context;

class Machine : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/gpuwatch-context-XXXXXX";
    root_ = mkdtemp(pattern);
    proc_ = root_ + "/proc";
    sys_ = root_ + "/sys";
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void file(const std::string& name, const std::string& text) {
    const std::filesystem::path path = root_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  Roots roots() const { return {proc_.c_str(), sys_.c_str()}; }
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

  std::string root_, proc_, sys_;
};

TEST_F(Machine, WithoutAnyFilesHasNoLimits) {
  EXPECT_STREQ(cgroup_version(roots()), "none");
  EXPECT_EQ(cpu_limit().quota_us, 0u);
  EXPECT_EQ(memory_limit().tightest_bytes, 0u);
  EXPECT_EQ(read_memory_below_limit(memory_limit()), UINT64_MAX);
  PressureFiles files;
  find_pressure(roots(), &files);
  EXPECT_STREQ(files.scope, "none");
  EXPECT_EQ(read_pressure_ns(files.cpu), 0u);
  EXPECT_EQ(read_machine_memory(roots()).total_bytes, 0u);
  gpuwatch::base::Text<2048> nodes;
  EXPECT_EQ(read_numa_nodes(roots(), &nodes), 0u);
  EXPECT_EQ(read_cpu_mhz(roots(), 0), 0u);
}

// --- version 2 --------------------------------------------------------------------------------------------

TEST_F(Machine, Version2TakesTheTightestQuotaOfAllAncestors) {
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

TEST_F(Machine, Version2InAContainerWhoseOwnGroupIsTheMount) {
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

TEST_F(Machine, Version2MemoryIsBoundByTheFullestLevel) {
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

TEST_F(Machine, Version2WithoutLimits) {
  file("proc/self/cgroup", "0::/user\n");
  file("sys/fs/cgroup/user/cpu.max", "max 100000\n");
  file("sys/fs/cgroup/user/cpu.stat", "usage_usec 9\n");
  file("sys/fs/cgroup/user/memory.max", "max\n");
  EXPECT_EQ(cpu_limit().quota_us, 0u);
  EXPECT_EQ(read_throttling(cpu_limit()).time_ns, 0u);
  EXPECT_EQ(memory_limit().tightest_bytes, 0u);
}

// --- version 1, and both ----------------------------------------------------------------------------------

TEST_F(Machine, Version1) {
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

TEST_F(Machine, Version1WithoutAQuotaHasNoLimit) {
  file("proc/self/cgroup", "4:cpu:/\n");
  file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  file("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  file("sys/fs/cgroup/cpu/cpu.stat", "nr_throttled 0\nthrottled_time 0\n");
  EXPECT_EQ(cpu_limit().quota_us, 0u);
}

TEST_F(Machine, HybridHasLimitsInVersion1AndPressureInVersion2) {
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

TEST_F(Machine, PressureOfTheMachineWhereTheGroupTellsNone) {
  file("proc/self/cgroup", "0::/\n");
  file("proc/pressure/cpu", "some avg10=1.00 avg60=0.00 avg300=0.00 total=42\n");
  PressureFiles files;
  find_pressure(roots(), &files);
  EXPECT_STREQ(files.scope, "machine");
  EXPECT_EQ(read_pressure_ns(files.cpu), 42000u);
}

TEST_F(Machine, RootGroupsPressureIsTheMachines) {
  file("proc/self/cgroup", "0::/\n");
  file("sys/fs/cgroup/cpu.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n");
  PressureFiles files;
  find_pressure(roots(), &files);
  EXPECT_STREQ(files.scope, "machine");
  EXPECT_EQ(read_pressure_ns(files.cpu), 5000u);
}

TEST_F(Machine, UnreadableFilesAreNoLimit) {
  file("proc/self/cgroup", "0::/user\n");
  file("sys/fs/cgroup/user/cpu.stat", "nr_throttled 1\nthrottled_usec 1\n");
  std::filesystem::create_directories(sys_ + "/fs/cgroup/user/cpu.max");  // opens, and refuses to be read
  std::filesystem::create_directories(sys_ + "/fs/cgroup/user/memory.max");
  EXPECT_EQ(cpu_limit().quota_us, 0u);
  EXPECT_EQ(memory_limit().count, 0u);
}

TEST_F(Machine, PathsTooLongToKeepAreNoLimit) {
  file("proc/self/cgroup", "0::/" + std::string(600, 'a') + "\n");
  file("sys/fs/cgroup/cgroup.procs", "");
  EXPECT_EQ(cpu_limit().quota_us, 0u);
  EXPECT_EQ(memory_limit().count, 0u);
}

TEST_F(Machine, GarbageIsNoLimit) {
  for (const char* text : {"", "\n", "::::", "0:", "0::", "4:cpu", "x:cpu:/y\n0::/z"}) {
    file("proc/self/cgroup", text);
    EXPECT_EQ(cpu_limit().quota_us, 0u) << text;
    EXPECT_EQ(memory_limit().count, 0u) << text;
  }
}

// --- the rest of the machine ------------------------------------------------------------------------------

TEST_F(Machine, MemoryAndSwap) {
  file("proc/meminfo",
       "MemTotal:       1000 kB\nMemFree:  1 kB\nMemAvailable:    400 kB\nSwapTotal:   8 kB\n");
  file("proc/vmstat", "nr_free_pages 1\npswpin 3\npswpout 9\n");
  const MachineMemory memory = read_machine_memory(roots());
  EXPECT_EQ(memory.total_bytes, 1024000u);
  EXPECT_EQ(memory.available_bytes, 409600u);
  EXPECT_EQ(memory.swap_bytes, 8192u);
  EXPECT_EQ(read_swap_in_bytes(roots()), 3u * 4096);
}

std::string disk_line(int minor, const char* name, int sectors, int busy_ms) {
  return "   8       " + std::to_string(minor) + " " + name + " 10 0 " + std::to_string(sectors) +
         " 5 6 0 7 8 0 " + std::to_string(busy_ms) + " 9 0 0 0 0 0 0\n";
}

TEST_F(Machine, BusiestDiskMayChange) {
  BusiestDisk disk;
  file("proc/diskstats", disk_line(0, "sda", 1000, 900) + disk_line(16, "sdb", 50, 10));
  disk.read(roots());
  EXPECT_EQ(disk.busy_ns(), 0u);  // nothing is known about the time before
  file("proc/diskstats", disk_line(0, "sda", 1010, 905) + disk_line(16, "sdb", 250, 70));
  disk.read(roots());
  EXPECT_EQ(disk.busy_ns(), 60'000'000u);
  EXPECT_EQ(disk.read_bytes(), 200u * 512);
  file("proc/diskstats", disk_line(0, "sda", 1410, 985) + disk_line(16, "sdb", 250, 70));
  disk.read(roots());
  EXPECT_EQ(disk.busy_ns(), 140'000'000u);
  EXPECT_EQ(disk.read_bytes(), 600u * 512);
  file("proc/diskstats", "garbage\n\n7\n");
  disk.read(roots());
  EXPECT_EQ(disk.busy_ns(), 140'000'000u);
}

TEST_F(Machine, WorkersAreAddedUp) {
  // utime 30, stime 12, 5 threads; the name is made to confuse.
  const std::string stat = "7 (py) thon) S 1 1 1 0 -1 0 0 0 0 0 30 12 1 1 20 0 5 0 100 0 0\n";
  file("proc/7/stat", stat);
  file("proc/7/schedstat", "111 222 3\n");
  file("proc/8/stat", stat);
  WorkerSums sums;
  EXPECT_TRUE(add_process(roots(), 7, &sums));
  EXPECT_EQ(sums.cpu_ns, 420'000'000u);
  EXPECT_EQ(sums.threads, 5u);
  EXPECT_EQ(sums.run_delay_ns, 222u);
  EXPECT_TRUE(add_process(roots(), 8, &sums));  // a kernel without schedstat
  EXPECT_EQ(sums.cpu_ns, 840'000'000u);
  EXPECT_EQ(sums.threads, 10u);
  EXPECT_EQ(sums.run_delay_ns, 222u);
  EXPECT_FALSE(add_process(roots(), 9, &sums));
}

TEST_F(Machine, NumaNodesMayHaveGaps) {
  file("sys/devices/system/node/node0/cpulist", "0-3,8\n");
  file("sys/devices/system/node/node2/cpulist", "4-7\n");
  gpuwatch::base::Text<2048> nodes;
  EXPECT_EQ(read_numa_nodes(roots(), &nodes), 2u);
  EXPECT_STREQ(nodes.c_str(), "0:0-3,8;2:4-7");
}

TEST_F(Machine, ClockOfACpu) {
  file("sys/devices/system/cpu/cpu3/cpufreq/scaling_cur_freq", "2394375\n");
  EXPECT_EQ(read_cpu_mhz(roots(), 3), 2394u);
}

bool parses(const std::string& line, MountLine* mount) {
  return parse_mount(line.data(), line.data() + line.size(), mount);
}

TEST(Mounts, ALineAsTheKernelWritesIt) {
  MountLine mount;
  ASSERT_TRUE(parses(
      "36 35 259:300 / /mnt/my\\040data rw,noatime shared:1 master:2 - nfs4 srv:/export rw,vers=4", &mount));
  EXPECT_EQ(mount.id, 36u);
  EXPECT_EQ(mount.device, makedev(259, 300));
  EXPECT_STREQ(mount.point, "/mnt/my data");
  EXPECT_STREQ(mount.type, "nfs4");
  EXPECT_STREQ(mount.source, "srv:/export");
  ASSERT_TRUE(parses("1 0 0:5 / / rw - overlay overlay rw", &mount));
  EXPECT_STREQ(mount.point, "/");
}

TEST(Mounts, GarbageIsNoMount) {
  MountLine mount;
  for (const char* line : {"", " ", "1", "1 2", "1 2 3 4 5", "1 2 3:4 / /p rw", "1 2 3:4 / /p rw -",
                           "1 2 3:4 / /p rw - t", "1 2 3:4 / /p rw - t ", "- - - - - -"}) {
    EXPECT_FALSE(parses(line, &mount)) << line;
  }
  EXPECT_FALSE(parses("1 0 0:5 / /" + std::string(5000, 'x') + " rw - ext4 /dev/sda rw", &mount));
}

TEST(Mounts, RemoteByType) {
  for (const char* type : {"nfs", "nfs4", "cifs", "fuse.sshfs", "fuse.gcsfuse", "fuse", "lustre", "9p"})
    EXPECT_TRUE(is_remote(type)) << type;
  for (const char* type : {"ext4", "xfs", "overlay", "tmpfs", "fuseblk", "fuse.fuse-overlayfs",
                           "fuse.squashfuse", "virtiofs", ""}) {
    EXPECT_FALSE(is_remote(type)) << type;
  }
}

TEST(ThisProcess, AffinityIsTheKernelsOwn) {
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  Affinity affinity;
  read_affinity(&affinity);
  EXPECT_EQ(affinity.count, static_cast<uint32_t>(CPU_COUNT(&set)));
  std::ifstream status("/proc/thread-self/status");
  const std::string key = "Cpus_allowed_list:\t";
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(key, 0) != 0) continue;
    EXPECT_EQ(line.substr(key.size()), affinity.list.c_str());
  }
}

}  // namespace
