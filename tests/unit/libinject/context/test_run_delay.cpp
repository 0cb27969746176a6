// SPDX-License-Identifier: Apache-2.0
// The run delay of a thread, against the same file read in the ordinary way: also in a job that closes what
// it did not open, and in a forked child.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "libinject/context/run_delay.h"
#include "libinject/runtime/fork_epoch.h"

namespace {

using gpuwatch::context::thread_run_delay_ns;

uint64_t own_reading() {
  std::ifstream file("/proc/thread-self/schedstat");
  uint64_t cpu_ns = 0, run_delay_ns = 0;
  file >> cpu_ns >> run_delay_ns;
  return run_delay_ns;
}

bool is_as_the_file_says() {
  const uint64_t before = own_reading(), delay = thread_run_delay_ns();
  return before <= delay && delay <= own_reading();
}

// Returns once this thread has waited for so long because others run on every core.
void wait_for_a_core(uint64_t ns) {
  std::atomic<bool> is_done = false;
  std::vector<std::jthread> others;
  for (unsigned i = 0; i <= std::thread::hardware_concurrency(); ++i) {
    others.emplace_back([&] {
      while (!is_done) continue;
    });
  }
  while (own_reading() < ns) continue;
  is_done = true;
}

// A number of the descriptors that the library keeps for itself.
constexpr int kFirstKept = 200;

TEST(RunDelay, IsWhatTheKernelCounts) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(is_as_the_file_says());
  bool is_so_elsewhere = false;
  std::thread([&] { is_so_elsewhere = is_as_the_file_says(); }).join();
  EXPECT_TRUE(is_so_elsewhere);
}

TEST(RunDelay, OutlivesAJobThatClosesEverythingAndOpensItsOwn) {
  EXPECT_TRUE(is_as_the_file_says());
  ASSERT_GE(fcntl(kFirstKept, F_GETFD), 0) << "nothing is kept there: the rest would show nothing";
  char name[] = "/tmp/gpuwatch-run-delay-XXXXXX";
  const int theirs = mkstemp(name);
  unlink(name);
  ASSERT_EQ(write(theirs, "1 18446744073709551615 1\n", 25), 25);
  ASSERT_EQ(dup2(theirs, kFirstKept), kFirstKept);
  EXPECT_TRUE(is_as_the_file_says());
  EXPECT_TRUE(is_as_the_file_says());
  EXPECT_EQ(lseek(kFirstKept, 0, SEEK_CUR), 25) << "the job's file was touched";
  close(kFirstKept);
  close(theirs);
}

TEST(RunDelay, OfAForkedChildIsTheChildsOwn) {
  gpuwatch::runtime::start_epochs();
  wait_for_a_core(1'000'000);  // longer than a child has, at its beginning
  EXPECT_TRUE(is_as_the_file_says());
  const pid_t child = fork();
  if (child == 0) {
    const uint64_t delay = thread_run_delay_ns();
    _exit(delay <= own_reading() && is_as_the_file_says() ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
