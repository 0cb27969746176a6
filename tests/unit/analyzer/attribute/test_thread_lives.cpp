// SPDX-License-Identifier: Apache-2.0
// Threads that live at a moment, against a look at every one of them.
#include "analyzer/attribute/thread_lives.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace gpuwatch::attribute {
namespace {

using model::kNone;
using model::Ns;

std::vector<uint32_t> alive(const std::vector<ThreadLife>& lives, Ns time) {
  std::vector<uint32_t> found;
  for (const ThreadLife& life : lives)
    if (life.begin <= time && time < life.end) found.push_back(life.thread);
  return found;
}

uint32_t ended_last(const std::vector<ThreadLife>& lives, Ns time) {
  const ThreadLife* last = nullptr;
  for (const ThreadLife& life : lives)
    if (life.end <= time && (!last || life.end > last->end)) last = &life;
  return last ? last->thread : kNone;
}

TEST(ThreadLives, FindWhatALookAtAllThreadsFinds) {
  std::mt19937 random(7);
  for (size_t count : {0, 1, 2, 3, 7, 8, 9, 100}) {
    std::vector<ThreadLife> lives;
    for (uint32_t i = 0; i < count; ++i) {
      const Ns begin = random() % 60;
      lives.push_back({begin, begin + 1 + Ns(random() % (i % 5 == 0 ? 60 : 5)), 2 * i});
    }
    const ThreadLives found(lives);
    for (Ns time = -1; time < 130; ++time) {
      EXPECT_EQ(found.at(time), alive(lives, time)) << count << " threads at " << time;
      EXPECT_EQ(found.ended_last(time), ended_last(lives, time)) << count << " threads at " << time;
    }
  }
}

// A thread for each of a million batches: a look at all of them for each would take a day.
TEST(ThreadLives, AskOnlyThoseThatLive) {
  constexpr uint32_t kThreads = 1'000'000;
  std::vector<ThreadLife> lives = {{0, Ns{kThreads} * 10 + 20, 0}};
  for (uint32_t i = 1; i < kThreads; ++i) lives.push_back({Ns{i} * 10, Ns{i} * 10 + 15, i});
  const ThreadLives found(lives);
  size_t seen = 0;
  for (uint32_t i = 2; i < kThreads; ++i) seen += found.at(Ns{i} * 10 + 2).size();
  EXPECT_EQ(seen, size_t{3} * (kThreads - 2));
}

}  // namespace
}  // namespace gpuwatch::attribute
