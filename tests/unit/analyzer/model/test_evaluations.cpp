// SPDX-License-Identifier: Apache-2.0
// Evaluations that read no loader: they begin with the model's eval().
#include <gtest/gtest.h>

#include "analyzer/model/phases.h"
#include "analyzer/model/steps.h"

namespace gpuwatch::model {
namespace {

using trace::OpClass;

constexpr Ns kMs = 1'000'000;

// Optimizer steps of 20 ms; before every `every`-th one an evaluation of `evaluation`.
class EvaluationsTest : public ::testing::Test {
 protected:
  EvaluationsTest() {
    run_.operations = {{"Optimizer.step", OpClass::OptimizerStep}, {kModuleEval, OpClass::Other}};
    run_.processes.resize(1);
    run_.processes[0].threads.resize(1);
    run_.processes[0].training_thread = 0;
    run_.processes[0].start = kMs;
  }
  StepSeries train(size_t steps, size_t every, Ns evaluation) {
    Process& process = run_.processes[0];
    Ns now = process.start;
    for (size_t i = 0; i < steps; ++i) {
      if (i % every == 0) {
        process.threads[0].calls.push_back({now + 10'000, now + 50'000, 0, 0, kNone, 1, OpClass::Other, 0});
        now += evaluation;
      }
      now += 20 * kMs;
      process.threads[0].calls.push_back({now - 2 * kMs, now, 1, 0, kNone, 0, OpClass::OptimizerStep, 0});
    }
    process.last_seen = now;
    return find_steps(run_, process);
  }
  model::Run run_;
};

TEST_F(EvaluationsTest, AreCutOutOfTheirSteps) {
  const StepSeries series = train(300, 50, 280 * kMs);
  ASSERT_EQ(series.steps.size(), 300u);
  ASSERT_EQ(series.evaluations.size(), 5u);  // the first is before the first step
  for (const Step& step : series.steps) EXPECT_LE(step.end - step.begin, 20 * kMs);
  EXPECT_EQ(series.steps[50].end - series.steps[50].begin, 20 * kMs);
  const auto phases = find_phases(run_.processes[0], series);
  EXPECT_NEAR(double(total(phases, PhaseKind::kEvaluation)), double(5 * 280 * kMs), double(kMs));
}

// Validate, then torch.save() the best weights: 0.1 s of 0.28 is the checkpoint's, and no evaluation as well.
TEST_F(EvaluationsTest, ACheckpointWithinOneIsNoPartOfIt) {
  train(300, 50, 280 * kMs);
  std::vector<HostCall>& calls = run_.processes[0].threads[0].calls;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].op_class != OpClass::Other) continue;
    const Ns begin = calls[i].end + 150 * kMs;
    calls.insert(calls.begin() + ptrdiff_t(i) + 1,
                 {begin, begin + 100 * kMs, 7, 0, kNone, 0, OpClass::Checkpoint, 0});
  }
  const StepSeries series = find_steps(run_, run_.processes[0]);
  const auto phases = find_phases(run_.processes[0], series);
  EXPECT_NEAR(double(total(phases, PhaseKind::kEvaluation)), double(5 * 180 * kMs), double(kMs));
  // The first save lies before the first step.
  EXPECT_NEAR(double(beside_steps(series, phases)), double(5 * 280 * kMs + 100 * kMs), double(kMs));
}

// Reinforcement learning sets the policy to eval() before each rollout, or before each action.
TEST_F(EvaluationsTest, AModeThatIsSetInEachStepIsNone) {
  const StepSeries series = train(100, 1, 30 * kMs);
  EXPECT_TRUE(series.evaluations.empty());
  EXPECT_EQ(series.steps[50].end - series.steps[50].begin, 50 * kMs);
}

// A frozen backbone is set to eval() when an epoch begins; what takes long then is the loader's start.
TEST_F(EvaluationsTest, FrozenPartsAtAnEpochsBeginAreNone) {
  train(300, 50, 280 * kMs);
  std::vector<HostCall>& calls = run_.processes[0].threads[0].calls;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].op_class != OpClass::Other) continue;
    const Ns begin = calls[i].end + 100'000;
    calls.insert(calls.begin() + ptrdiff_t(i) + 1,
                 {begin, begin + 270 * kMs, 7, 0, kNone, 0, OpClass::LoaderStart, 0});
  }
  EXPECT_TRUE(find_steps(run_, run_.processes[0]).evaluations.empty());
}

TEST_F(EvaluationsTest, AModeThatCostsNothingIsNone) {
  EXPECT_TRUE(train(300, 50, 2 * kMs).evaluations.empty());
}

}  // namespace
}  // namespace gpuwatch::model
