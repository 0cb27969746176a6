// SPDX-License-Identifier: Apache-2.0
// The doctor's words about machines that are made up here.
#include <gtest/gtest.h>

#include <string>

#include "analyzer/cli/machine.h"
#include "tests/unit/libinject/made_up_machine.h"

namespace {

using namespace gpuwatch::cli;

using Doctor = gpuwatch::tests::MadeUpMachine;

bool says(const std::string& text, const std::string& words) {
  return text.find(words) != text.npos;
}

TEST_F(Doctor, NamesNetworkFileSystems) {
  file("proc/self/mountinfo",
       "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:9 / /data rw shared:3 - nfs4 srv:/data rw\n"
       "3 1 0:8 / /run/user/0/doc rw - fuse.portal portal rw\ngarbage\n");
  EXPECT_PRED2(says, storage_words(root_), "/data (nfs4)");
  EXPECT_FALSE(says(storage_words(root_), "portal"));
}

TEST_F(Doctor, TextOfTheMachineIsMadePrintable) {
  file("proc/self/mountinfo", "2 1 0:9 / /da\033[31mta rw - nfs4 srv:/data rw\n");
  EXPECT_FALSE(says(storage_words(root_), "\033"));
}

TEST_F(Doctor, MemoryLimitIsTheLowestOfAllLevels) {
  file("proc/self/cgroup", "0::/a/b\n");
  file("sys/fs/cgroup/a/memory.max", "2147483648\n");
  file("sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_PRED2(says, memory_limit_words(root_), "2.0 GiB");
}

TEST_F(Doctor, MemoryLimitOfVersion1) {
  file("proc/self/cgroup", "4:memory:/box\n");
  file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_PRED2(says, memory_limit_words(root_), "no cgroup limit");
  file("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "1073741824\n");
  EXPECT_PRED2(says, memory_limit_words(root_), "1.0 GiB");
}

TEST_F(Doctor, CpuQuotaIsTheTightestOfAllLevels) {
  EXPECT_PRED2(says, cpu_quota_words(root_), "no quota");
  file("proc/self/cgroup", "0::/a/b\n");
  file("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  file("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  file("sys/fs/cgroup/a/b/cpu.stat", "nr_throttled 0\n");
  EXPECT_PRED2(says, cpu_quota_words(root_), "1.50 CPU cores");
}

TEST_F(Doctor, PressureOfGroupMachineOrNone) {
  EXPECT_PRED2(says, pressure_words(root_), "PSI is off");
  file("proc/pressure/cpu", "some avg10=0.00 total=1\n");
  EXPECT_PRED2(says, pressure_words(root_), "whole machine");
  file("proc/self/cgroup", "0::/a\n");
  file("sys/fs/cgroup/a/cpu.pressure", "some avg10=0.00 total=1\n");
  file("sys/fs/cgroup/a/cgroup.events", "populated 1\n");
  EXPECT_PRED2(says, pressure_words(root_), "the job's cgroup");
}

TEST_F(Doctor, WorkersMayBeReadUnlessYamaForbids) {
  EXPECT_PRED2(says, peek_words(root_), "can be read");
  file("proc/sys/kernel/yama/ptrace_scope", "1\n");
  EXPECT_PRED2(says, peek_words(root_), "can be read");
  file("proc/sys/kernel/yama/ptrace_scope", "2\n");
  EXPECT_PRED2(says, peek_words(root_), "CAP_SYS_PTRACE");
  file("proc/sys/kernel/yama/ptrace_scope", "3\n");
  EXPECT_PRED2(says, peek_words(root_), "cannot be read");
}

}  // namespace
