// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "analyzer/model/training_stacks.h"

namespace gpuwatch::model {
namespace {

constexpr uint32_t kTokenize = 1, kMeasure = 2;

class TrainingStacks : public testing::Test {
 protected:
  TrainingStacks() {
    run.texts[kTokenize] =
        "/usr/lib/python3.11/re.py:9 sub\n/home/a/train.py:12 tokenize\n/home/a/train.py:40 main";
    run.texts[kMeasure] = "/home/a/train.py:20 measure\n/home/a/train.py:41 main";
    process.pid = 7;
    process.threads.resize(2);
  }
  void see(Ns time, uint32_t text, uint32_t pid = 7) {
    process.threads[1].worker_stacks.push_back({time, 40, text, pid});
  }
  model::Run run;
  Process process;
};

TEST_F(TrainingStacks, CountTheUsersFunctionWithinTheIntervals) {
  for (Ns time = 0; time < 300; time += 10) see(time, time % 30 == 0 ? kMeasure : kTokenize);
  for (Ns time = 1000; time < 1100; time += 10) see(time, kMeasure);
  const auto functions = training_functions(run, process, {{0, 150}, {150, 300}});
  ASSERT_EQ(functions.size(), 2u);
  EXPECT_EQ(functions[0].frame.function, "tokenize");
  EXPECT_EQ(functions[0].frame.location(), "/home/a/train.py:12");
  EXPECT_NEAR(functions[0].share, 2.0 / 3, 1e-9);
  EXPECT_EQ(main_training_function(run, process, {{0, 300}})->frame.function, "tokenize");
}

TEST_F(TrainingStacks, OfWorkersAreNotCounted) {
  for (Ns time = 0; time < 300; time += 10) see(time, kMeasure, 8);
  EXPECT_TRUE(training_functions(run, process, {{0, 300}}).empty());
}

TEST_F(TrainingStacks, NineSamplesNameNoPlace) {
  for (Ns time = 0; time < 90; time += 10) see(time, kMeasure);
  EXPECT_TRUE(training_functions(run, process, {{0, 300}}).empty());
  see(90, kMeasure);
  EXPECT_FALSE(training_functions(run, process, {{0, 300}}).empty());
}

TEST_F(TrainingStacks, HalfInNoFunctionNamesNone) {
  run.texts[3] = "/home/a/train.py:30 other\n/home/a/train.py:42 main";
  for (Ns time = 0; time < 300; time += 10) see(time, 1 + uint32_t(time / 10) % 3);
  EXPECT_FALSE(main_training_function(run, process, {{0, 300}}));
}

}  // namespace
}  // namespace gpuwatch::model
