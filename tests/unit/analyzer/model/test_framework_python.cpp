// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "analyzer/model/framework_python.h"

namespace gpuwatch::model {
namespace {

// Python of `framework` in half of the samples, a long call into C in the others.
std::optional<FrameworkPython> seen_half_in(const std::string& text, bool interprets = true) {
  Run run;
  Process process;
  process.pid = 7;
  process.threads.resize(1);
  run.texts[1] = text;
  run.texts[2] = "/v/site-packages/torch/autograd/graph.py:9 _engine_run_backward\n/home/a/train.py:41 main";
  for (Ns time = 0; time < 1000; time += 10)
    process.threads[0].worker_stacks.push_back({time, 10, time % 20 ? 1u : 2u, 7, interprets && time % 20});
  return framework_python(run, process, {{0, 1000}});
}

constexpr char kMain[] = "\n/home/a/train.py:40 main";

// A tf.function that is traced again in each step: "decorate it with @tf.function" was said of it.
TEST(FrameworkPython, IsNoneWhereAGraphIsTraced) {
  constexpr char kOperation[] = "/v/site-packages/tensorflow/python/ops/math_ops.py:1700 multiply";
  const std::string traced = std::string(kOperation) +
                             "\n/v/site-packages/tensorflow/python/framework/func_graph.py:1060 func_graph";
  EXPECT_TRUE(seen_half_in(std::string(kOperation) + kMain));
  EXPECT_FALSE(seen_half_in(traced + kMain));
}

TEST(FrameworkPython, IsWhatCallsTheModelsOperations) {
  const auto torch =
      seen_half_in(std::string("/v/site-packages/torch/nn/modules/linear.py:9 forward") + kMain);
  ASSERT_TRUE(torch);
  EXPECT_NEAR(torch->share.share, 0.5, 1e-9);
  EXPECT_EQ(torch->optimizer, 0);
  EXPECT_EQ(torch->caller.line, 40u);
  const auto keras =
      seen_half_in(std::string("/v/site-packages/tensorflow/python/eager/execute.py:9 quick_execute\n"
                               "/v/site-packages/keras/src/layers/core/dense.py:9 call\n"
                               "/v/site-packages/keras/src/trainers/trainer.py:9 fit") +
                   kMain);
  ASSERT_TRUE(keras);
  EXPECT_EQ(keras->in_graph, 0);
  const auto graph = seen_half_in(
      std::string(
          "/v/site-packages/tensorflow/python/eager/polymorphic_function/function_type_utils.py:9 bind") +
      kMain);
  ASSERT_TRUE(graph);
  EXPECT_EQ(graph->in_graph, 1);
}

TEST(FrameworkPython, IsNeitherALongCallNorTheScriptsOrALibrarys) {
  for (const char* text : {"/home/a/train.py:12 metric", "/v/site-packages/sklearn/metrics.py:7 auc",
                           "/v/site-packages/torch/nn/functional.py:9 relu"})
    EXPECT_FALSE(seen_half_in(std::string(text) + kMain)) << text;
  EXPECT_FALSE(
      seen_half_in(std::string("/v/site-packages/torch/nn/modules/linear.py:9 forward") + kMain, false));
}

}  // namespace
}  // namespace gpuwatch::model
