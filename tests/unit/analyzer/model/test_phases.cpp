// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "analyzer/model/phases.h"
#include "run_builder.h"

namespace gpuwatch::model {
namespace {

using test::kMs;
using trace::OpClass;

constexpr uint32_t kTraining = 900, kValidation = 901;

// Five steps of 10 ms, of which the first is 30 ms long; evaluations where a test puts them.
class PhasesTest : public test::OneThreadTest {
 protected:
  PhasesTest() {
    start_ = trace_.operation("iter", OpClass::LoaderStart);
    next_ = trace_.operation("next", OpClass::LoaderNext);
    optimizer_ = trace_.operation("step", OpClass::OptimizerStep);
    checkpoint_ = trace_.operation("save", OpClass::Checkpoint);
    trace_.loader({.id = kTraining, .batch_size = 16});
    trace_.loader({.id = kValidation, .batch_size = 16});
  }

  // Returns the end of the step: a batch that takes 4 ms, an optimizer step 2 ms before the end.
  uint64_t step(uint64_t at, uint64_t length = 10) {
    slots_.host(next_, at * kMs, (at + 4) * kMs, kTraining);
    slots_.host(optimizer_, (at + length - 2) * kMs, (at + length) * kMs, 1);
    return at + length;
  }
  uint64_t steps(uint64_t at, int count) {
    for (int i = 0; i < count; ++i) at = step(at);
    return at;
  }
  // A new iterator, `batches` of 5 ms, and the end of it.
  uint64_t evaluation(uint64_t at, int batches) {
    slots_.host(start_, at * kMs, (at + 1) * kMs, kValidation);
    at += 1;
    for (int i = 0; i < batches; ++i, at += 5) slots_.host(next_, at * kMs, (at + 2) * kMs, kValidation);
    slots_.host(next_, at * kMs, (at + 1) * kMs, kValidation, 0, trace::kFailed);
    return at + 1;
  }

  std::vector<Phase> phases() {
    series_ = find_steps(run_, process());
    return find_phases(process(), series_);
  }
  static std::vector<Phase> of(const std::vector<Phase>& all, PhaseKind kind) {
    std::vector<Phase> result;
    for (const Phase& phase : all)
      if (phase.kind == kind) result.push_back(phase);
    return result;
  }

  StepSeries series_;
  uint16_t start_, next_, optimizer_, checkpoint_;
};

TEST_F(PhasesTest, FindsTheEvaluationBetweenStepsAndAfterTheLast) {
  uint64_t at = steps(1000, 10);
  const uint64_t first = at;
  at = evaluation(at, 4);  // 22 ms
  at = steps(at, 10);
  const uint64_t second = at;
  at = evaluation(at, 2);  // 12 ms
  const auto found = of(phases(), PhaseKind::kEvaluation);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].time.begin, Ns(first * kMs));
  EXPECT_EQ(found[0].time.length(), Ns(22 * kMs));
  EXPECT_EQ(found[1].time.begin, Ns(second * kMs));
  EXPECT_EQ(found[1].time.length(), Ns(12 * kMs));
  for (const Step& it : series_.steps) EXPECT_LE(it.end - it.begin, Ns(10 * kMs));
}

TEST_F(PhasesTest, AJobWithoutEvaluationHasNone) {
  steps(1000, 20);
  EXPECT_TRUE(of(phases(), PhaseKind::kEvaluation).empty());
}

TEST_F(PhasesTest, TheLastBatchOfAnEpochIsNoEvaluation) {
  uint64_t at = steps(1000, 20);
  slots_.host(next_, at * kMs, (at + 1) * kMs, kTraining, 0, trace::kFailed);
  EXPECT_TRUE(of(phases(), PhaseKind::kEvaluation).empty());
}

TEST_F(PhasesTest, StartupReachesToTheFirstStepThatIsNoWarmUp) {
  uint64_t at = step(1000, 60);
  steps(at, 10);
  const auto all = phases();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all[0].kind, PhaseKind::kStartup);
  EXPECT_EQ(all[0].time.begin, run_.processes[0].start);
  EXPECT_EQ(all[0].time.end, Ns(at * kMs));
}

TEST_F(PhasesTest, CountsANestedCheckpointOnce) {
  uint64_t at = steps(1000, 5);
  slots_.host(next_, at * kMs, (at + 4) * kMs, kTraining);
  slots_.host(checkpoint_, (at + 5) * kMs, (at + 25) * kMs);
  slots_.host(checkpoint_, (at + 6) * kMs, (at + 20) * kMs);
  slots_.host(optimizer_, (at + 26) * kMs, (at + 28) * kMs, 1);
  steps(at + 28, 5);
  const auto found = of(phases(), PhaseKind::kCheckpoint);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].time.length(), Ns(20 * kMs));
}

TEST_F(PhasesTest, AnEpochChangeIsTheTrainingLoadersNotTheEvaluations) {
  uint64_t at = steps(1000, 10);
  at = evaluation(at, 4);
  slots_.host(start_, at * kMs, (at + 3) * kMs, kTraining);
  steps(at + 3, 10);
  const auto found = of(phases(), PhaseKind::kEpochChange);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].time.begin, Ns(at * kMs));
}

TEST_F(PhasesTest, WithoutStepsThereAreNone) {
  EXPECT_TRUE(find_phases(Process{}, StepSeries{}).empty());
}

}  // namespace
}  // namespace gpuwatch::model
