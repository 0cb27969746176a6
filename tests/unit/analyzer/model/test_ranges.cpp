// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "analyzer/model/phases.h"
#include "analyzer/model/ranges.h"
#include "run_builder.h"

namespace gpuwatch::model {
namespace {

using test::kMs;
using trace::OpClass;

TEST(RangeNames, StepsAreSaidInOwnWords) {
  for (const char* name :
       {"step", "Step 17", "iteration", "iter_0", "batch 3", "ProfilerStep#12", "train_step", "trainStep",
        "training iteration", "epoch 1, step 2", "[pl][profile]run_training_batch"}) {
    EXPECT_EQ(meaning_of(name), RangeMeaning::kStep) << name;
  }
  for (const char* name :
       {"", "17", "epoch 3", "optimizer.step", "Optimizer.step#SGD.step", "aten::batch_norm", "load batch",
        "forward", "stepwise", "next batch", "scheduler step"}) {
    EXPECT_EQ(meaning_of(name), RangeMeaning::kOther) << name;
  }
}

TEST(RangeNames, PhasesAreSaidInOwnWords) {
  for (const char* name : {"evaluation", "val_epoch", "run_validation", "validation_step", "Eval", "test"})
    EXPECT_EQ(meaning_of(name), RangeMeaning::kEvaluation) << name;
  for (const char* name : {"checkpoint", "save_checkpoint", "saving ckpt 3", "checkpointing"})
    EXPECT_EQ(meaning_of(name), RangeMeaning::kCheckpoint) << name;
  // Recomputing activations is called so, too.
  for (const char* name :
       {"CheckpointFunctionBackward", "checkpointed forward", "load checkpoint", "valid mask", "latest"})
    EXPECT_EQ(meaning_of(name), RangeMeaning::kOther) << name;
}

TEST(RangeNames, NumbersDoNotTellRangesApart) {
  EXPECT_EQ(recurring_name("step 17 of 20"), "step # of #");
  EXPECT_EQ(recurring_name(""), "");
}

class RangesTest : public test::OneThreadTest {
 protected:
  RangesTest() {
    range_ = trace_.operation("nvtxRangePush", OpClass::Range);
    process_range_ = trace_.operation("nvtxRangeStart", OpClass::ProcessRange);
    mark_ = trace_.operation("nvtxMark", OpClass::Mark);
    launch_ = trace_.operation("cudaLaunchKernel", OpClass::Launch);
    optimizer_ = trace_.operation("step", OpClass::OptimizerStep);
    wait_ = trace_.operation("sem_wait", OpClass::Wait);
  }
  // In milliseconds; without a domain.
  void range(std::string_view name, double begin, double end) { put(range_, name, begin, end); }
  void put(uint16_t op, std::string_view name, double begin, double end) {
    slots_.host(op, at(begin), at(end), 0, trace_.text(name));
  }
  void numbered(std::string_view name, int64_t payload, double begin, double end) {
    slots_.host(range_, at(begin), at(end), 0, trace_.text(name),
                trace::RangeDetail(static_cast<uint64_t>(payload), 0, 0, 0, 2, 0, 0));
  }
  static uint64_t at(double ms) { return static_cast<uint64_t>(ms * double(kMs)); }

  const Thread& thread() { return process().threads.at(0); }
  StepSeries steps() { return find_steps(run_, process()); }

  uint16_t range_, process_range_, mark_, launch_, optimizer_, wait_;
};

TEST_F(RangesTest, RangesAreNoCalls) {
  slots_.host(launch_, at(11), at(12));
  range("inner", 12, 14);
  put(mark_, "moment", 13, 13);
  range("outer", 10, 15);
  put(process_range_, "across", 9, 20);
  ASSERT_EQ(thread().calls.size(), 1u);
  ASSERT_EQ(thread().ranges.size(), 4u);
  std::vector<std::string> names;
  for (const Range& r : thread().ranges) names.push_back(run_.texts.at(r.name));
  EXPECT_EQ(names, (std::vector<std::string>{"across", "outer", "inner", "moment"}));
  EXPECT_TRUE(thread().ranges[0].is_process);
  EXPECT_TRUE(thread().ranges[3].is_mark);
  EXPECT_EQ(run_.processes[0].last_seen, static_cast<Ns>(at(20)));
  EXPECT_EQ(run_.events, 5u);
}

TEST_F(RangesTest, StepsReachFromBeginToBegin) {
  for (int i = 0; i < 5; ++i) {
    range("load", 10 * i + 1, 10 * i + 4);
    range("train_step " + std::to_string(i), 10 * i + 5, 10 * i + 10);
  }
  const StepSeries series = steps();
  EXPECT_EQ(series.source, "nvtx");
  ASSERT_EQ(series.steps.size(), 5u);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(series.steps[i].begin, static_cast<Ns>(at(double(10 * i + 5))));
  EXPECT_EQ(series.steps[3].end, series.steps[4].begin);
  EXPECT_EQ(series.steps[4].end, static_cast<Ns>(at(50)));
}

TEST_F(RangesTest, TheOutermostOfTwoStepsCounts) {
  for (int i = 0; i < 4; ++i) {
    for (int micro = 0; micro < 3; ++micro) range("batch", 20 * i + 5 * micro + 1, 20 * i + 5 * micro + 4);
    range("iteration", 20 * i + 1, 20 * i + 19);
  }
  EXPECT_EQ(steps().steps.size(), 4u);
}

TEST_F(RangesTest, APayloadThatCountsUpIsAStepsNumber) {
  for (int i = 0; i < 40; ++i) {
    const int in_epoch = i % 20;  // begins anew
    for (int layer = 0; layer < 3; ++layer)
      numbered("layer", layer, 20 * i + 5 * layer + 1, 20 * i + 5 * layer + 4);
    numbered("forward and backward", in_epoch, 20 * i + 1, 20 * i + 19);
  }
  EXPECT_EQ(steps().source, "nvtx");
  EXPECT_EQ(steps().steps.size(), 40u);
}

TEST_F(RangesTest, OtherPayloadsAreNoStepsNumber) {
  for (int i = 0; i < 10; ++i) {
    numbered("batch size", 64, 20 * i + 1, 20 * i + 9);
    numbered("tokens", 100 - 3 * i, 20 * i + 11, 20 * i + 19);
  }
  EXPECT_EQ(steps().source, "");
}

TEST_F(RangesTest, PayloadsOfEveryWholeType) {
  const auto payload = [&](uint64_t bits, uint8_t type) {
    slots_.host(range_, at(1), at(2), 0, trace_.text("r"), trace::RangeDetail(bits, 7, 0, 0, type, 0, 0));
  };
  payload(1, 1);
  payload(uint64_t(-5), 2);
  payload(4'000'000'000u, 4);
  payload(uint32_t(-7), 5);
  payload(0x3ff0000000000000, 3);
  payload(0x3f800000, 6);
  std::vector<std::optional<int64_t>> seen;
  for (const Range& range : thread().ranges) seen.push_back(range.payload);
  EXPECT_EQ(seen,
            (std::vector<std::optional<int64_t>>{1, -5, 4'000'000'000, -7, std::nullopt, std::nullopt}));
}

TEST_F(RangesTest, TwoStepsAreNoSeries) {
  range("step", 1, 2);
  range("step", 3, 4);
  EXPECT_EQ(steps().source, "");
}

TEST_F(RangesTest, TheOptimizerIsTrustedMore) {
  for (int i = 0; i < 6; ++i) {
    range("step", 10 * i + 1, 10 * i + 9);
    slots_.host(optimizer_, at(10 * i + 7), at(10 * i + 8), 1);
  }
  EXPECT_EQ(steps().source, "optimizer");
}

// Nothing in the name says what it is, but it recurs with the launches.
TEST_F(RangesTest, LaunchStepsMoveToTheRangeThatRecursWithThem) {
  for (int i = 0; i < 30; ++i) {
    const double begin = 10 * i + 5;
    range("encode", begin + 2.5, begin + 2.9);
    for (int k = 0; k < 4; ++k)
      slots_.host(launch_, at(begin + 1 + k), at(begin + 1.1 + k), 0, 0,
                  trace::CallDetail(0, static_cast<uint64_t>(100 + k), 7, 255, 0, 0));
    range("whole thing", begin, begin + 7);
  }
  const StepSeries series = steps();
  EXPECT_EQ(series.source, "nvtx");
  ASSERT_EQ(series.steps.size(), 30u);
  EXPECT_EQ(series.steps[7].begin, static_cast<Ns>(at(75)));
}

TEST_F(RangesTest, ARangeThatRecursOtherwiseDoesNot) {
  for (int i = 0; i < 30; ++i) {
    for (int k = 0; k < 4; ++k) {
      slots_.host(launch_, at(10 * i + 1 + k), at(10 * i + 1.1 + k), 0, 0,
                  trace::CallDetail(0, static_cast<uint64_t>(100 + k), 7, 255, 0, 0));
      range("layer", 10 * i + 1 + k, 10 * i + 1.9 + k);
    }
    if (i % 10 == 0) range("epoch", 10 * i, 10 * i + 99);
  }
  EXPECT_EQ(steps().source, "launches");
}

TEST_F(RangesTest, EvaluationsAndCheckpointsAreCutOutAndNamed) {
  double now = 1;
  for (int i = 0; i < 12; ++i) {
    range("step", now, now + 9);
    now += 10;
    if (i == 5) {
      range("validation", now, now + 50);
      range("save_checkpoint", now + 51, now + 60);
      now += 70;
    }
  }
  const StepSeries series = steps();
  ASSERT_EQ(series.steps.size(), 12u);
  EXPECT_EQ(series.steps[5].end, static_cast<Ns>(at(61)));
  const auto phases = find_phases(run_.processes[0], series);
  EXPECT_EQ(total(phases, PhaseKind::kEvaluation), static_cast<Ns>(at(50)));
  EXPECT_EQ(total(phases, PhaseKind::kCheckpoint), static_cast<Ns>(at(9)));
}

TEST_F(RangesTest, WhatIsInEveryStepIsNoEvaluation) {
  for (int i = 0; i < 12; ++i) {
    range("step", 10 * i + 1, 10 * i + 6);
    range("validation", 10 * i + 7, 10 * i + 9);
  }
  const StepSeries series = steps();
  EXPECT_EQ(series.steps[5].end, series.steps[6].begin);
  EXPECT_EQ(total(find_phases(run_.processes[0], series), PhaseKind::kEvaluation), 0);
}

TEST_F(RangesTest, TheInnermostRangeIsTheLabel) {
  range("augment", 2, 5);
  range("outer", 1, 9);
  put(process_range_, "of everybody", 0, 20);
  const Thread& job = thread();
  EXPECT_FALSE(innermost_range(run_, job, {}));
  const auto most = innermost_range(run_, job, {{Ns(at(2)), Ns(at(5.5))}, {Ns(at(8)), Ns(at(12))}});
  ASSERT_TRUE(most);
  EXPECT_EQ(most->name, "augment");
  EXPECT_EQ(most->ns, static_cast<Ns>(at(3)));
  EXPECT_EQ(most->category, "");
}

TEST_F(RangesTest, TheCategoryIsPartOfTheLabel) {
  const uint32_t loading = trace_.text("loading");
  slots_.host(range_, at(1), at(9), 0, trace_.text("augment 1"),
              trace::RangeDetail(0, 3, loading, 0, 0, 0, 0));
  const Thread& job = thread();
  const auto most = innermost_range(run_, job, {{Ns(at(2)), Ns(at(5))}});
  ASSERT_TRUE(most);
  EXPECT_EQ(most->name, "augment #");
  EXPECT_EQ(most->category, "loading");
}

}  // namespace
}  // namespace gpuwatch::model
