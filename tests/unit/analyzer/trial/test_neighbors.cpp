// SPDX-License-Identifier: Apache-2.0
#include "analyzer/trial/neighbors.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <ctime>

namespace gpuwatch::trial {
namespace {

// The CPU time of a child is a neighbor's until the child has been waited for: then it is ours.
TEST(Neighbors, AreThoseThatAreNotOurs) {
  constexpr double kBurnt_s = 0.3, kTick_s = 0.03;
  const auto start = std::chrono::steady_clock::now();
  const Neighbors neighbors;
  const pid_t child = fork();
  if (child == 0) {
    while (double(std::clock()) / CLOCKS_PER_SEC < kBurnt_s) {
    }
    _exit(0);
  }
  siginfo_t ended;
  ASSERT_EQ(waitid(P_PID, id_t(child), &ended, WEXITED | WNOWAIT), 0);
  const auto others_s = [&] {
    return neighbors.cores() *
           std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const double before_s = others_s();
  EXPECT_GE(before_s, kBurnt_s - kTick_s);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_NEAR(before_s - others_s(), kBurnt_s, 2 * kTick_s);
}

}  // namespace
}  // namespace gpuwatch::trial
