// SPDX-License-Identifier: Apache-2.0
// What the sampler makes of the kernel's files: memory, disks, workers, NUMA nodes, this process's CPUs.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <string>

#include "libinject/context/disk.h"
#include "libinject/context/memory.h"
#include "libinject/context/sampler.h"
#include "libinject/context/topology.h"
#include "libinject/context/workers.h"
#include "tests/unit/libinject/made_up_machine.h"

namespace {

using namespace gpuwatch::context;
using Machine = gpuwatch::tests::MadeUpMachine;

TEST_F(Machine, WithoutAnyFilesIsUnknown) {
  EXPECT_EQ(read_machine_memory(roots()).total_bytes, 0u);
  gpuwatch::base::Text<2048> nodes;
  EXPECT_EQ(read_numa_nodes(roots(), &nodes), 0u);
  EXPECT_EQ(read_cpu_mhz(roots(), 0), 0u);
}

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
  // 600 minor faults, utime 30, stime 12, 5 threads; the name is made to confuse.
  const std::string stat = "7 (py) thon) S 1 1 1 0 -1 0 600 3 2 1 30 12 1 1 20 0 5 0 100 0 0\n";
  file("proc/7/stat", stat);
  file("proc/7/schedstat", "111 222 3\n");
  file("proc/8/stat", stat);
  WorkerSums sums;
  EXPECT_TRUE(add_process(roots(), 7, &sums));
  EXPECT_EQ(sums.cpu_ns, 420'000'000u);
  EXPECT_EQ(sums.system_ns, 120'000'000u);
  EXPECT_EQ(sums.minor_faults, 600u);
  EXPECT_EQ(sums.threads, 5u);
  EXPECT_EQ(sums.run_delay_ns, 222u);
  EXPECT_TRUE(add_process(roots(), 8, &sums));  // a kernel without schedstat
  EXPECT_EQ(sums.cpu_ns, 840'000'000u);
  EXPECT_EQ(sums.threads, 10u);
  EXPECT_EQ(sums.run_delay_ns, 222u);
  EXPECT_FALSE(add_process(roots(), 9, &sums));
}

TEST_F(Machine, OtherChildrenAreNoWorkersAndHaveChildren) {
  const std::string own =
      "proc/" + std::to_string(getpid()) + "/task/" + std::to_string(gettid()) + "/children";
  const auto uses = [&](int pid, int ticks, const std::string& children) {
    const std::string folder = "proc/" + std::to_string(pid);
    file(folder + "/stat",
         "7 (x) S 1 1 1 0 -1 0 0 0 0 0 " + std::to_string(ticks) + " 0 1 1 20 0 5 0 100 0 0\n");
    file(folder + "/task/" + std::to_string(pid) + "/children", children);
  };
  EXPECT_EQ(read_other_children_cpu_ns(roots()), 0u) << "a kernel that lists no children";
  file(own, "70 71 72 ");
  uses(70, 1, "73 ");
  uses(71, 10, "");
  uses(73, 100, "70 ");  // a circle, as a pid that was given out again would make
  EXPECT_EQ(read_other_children_cpu_ns(roots()), 1'110'000'000u) << "72 has ended";
  watch_child(71);
  EXPECT_EQ(read_other_children_cpu_ns(roots()), 1'010'000'000u);
}

TEST(Children, ThatEndedHaveUsedWhatTheyUsed) {
  const uint64_t before = read_ended_children_cpu_ns();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    timespec used = {};
    while (used.tv_sec == 0 && used.tv_nsec < 50'000'000) clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_GE(read_ended_children_cpu_ns() - before, 50'000'000u);
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

// Four times 16 pages; a kernel with large pages of shared memory may give 16 of them at once.
TEST(ThisProcess, MeasuresPagesThatItFaultsIn) {
  rusage before, after;
  getrusage(RUSAGE_THREAD, &before);
  const uint64_t page_ns = measure_shared_page_ns();
  getrusage(RUSAGE_THREAD, &after);
  EXPECT_GE(after.ru_minflt - before.ru_minflt, 4);
  EXPECT_GT(page_ns, 0u);
  const uint64_t spent_us = uint64_t(after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec -
                                     before.ru_stime.tv_sec) *
                                1000000 +
                            uint64_t(after.ru_utime.tv_usec - before.ru_utime.tv_usec +
                                     after.ru_stime.tv_usec - before.ru_stime.tv_usec);
  EXPECT_LE(64 * page_ns, (spent_us + 2) * 1000) << "of all rounds, the quickest";
}

}  // namespace
