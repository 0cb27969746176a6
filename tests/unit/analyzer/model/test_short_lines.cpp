// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "analyzer/model/short_lines.h"

namespace gpuwatch::model {
namespace {

constexpr char kForward[] =
    "\n/home/a/crf.py:69 Crf.forward\n/v/site-packages/torch/nn/modules/module.py:9 Module._call_impl\n"
    "/home/a/train.py:40 main";

// Of ten samples: three in `loop` (of which the first is long, where `has_long`), one in a layer, five in the
// backward pass, one in an optimizer.
std::optional<ShortLines> seen_in(const std::string& loop, bool has_long = false) {
  Run run;
  Process process;
  process.pid = 7;
  process.threads.resize(1);
  run.texts[1] = loop;
  run.texts[2] = "/v/site-packages/torch/nn/modules/rnn.py:1164 LSTM.forward" + std::string(kForward);
  run.texts[3] = "/v/site-packages/torch/autograd/graph.py:9 _engine_run_backward\n/home/a/train.py:41 main";
  run.texts[4] = "/v/site-packages/torch/optim/adam.py:9 adam\n/home/a/train.py:42 main";
  constexpr uint32_t kTexts[] = {1, 1, 1, 2, 3, 3, 3, 3, 3, 4};
  for (Ns i = 0; i < 100; ++i) {
    const uint32_t text = kTexts[i % 10];
    const bool interprets = text == 1 && !(has_long && i % 10 == 0);
    process.threads[0].worker_stacks.push_back({i * 10, 10, text, 7, interprets});
  }
  return short_lines(run, process, {{0, 1000}});
}

TEST(ShortLines, HaveTheirPartOfTheBackwardPass) {
  const auto lines = seen_in("/home/a/crf.py:58 Crf.advance" + std::string(kForward));
  ASSERT_TRUE(lines);
  EXPECT_EQ(lines->samples, 100u);
  EXPECT_EQ(lines->line.function, "Crf.advance");
  EXPECT_NEAR(lines->share.share, 0.3, 1e-9);
  EXPECT_NEAR(lines->of_forward, 0.75, 1e-9);
  EXPECT_NEAR(lines->backward, 0.5, 1e-9);
  EXPECT_NEAR(lines->with_backward(), 0.3 + 0.5 * 0.75, 1e-9);
}

TEST(ShortLines, AreAlsoWhatAnOptimizersClosureCalls) {
  const auto lines =
      seen_in("/home/a/crf.py:58 Crf.advance" + std::string(kForward) +
              "\n/v/site-packages/torch/optim/optimizer.py:533 Optimizer.profile_hook_step.<locals>.wrapper\n"
              "/v/site-packages/lightning/pytorch/core/module.py:1366 LightningModule.optimizer_step");
  ASSERT_TRUE(lines);
  EXPECT_NEAR(lines->share.share, 0.3, 1e-9);
}

TEST(ShortLines, AreNeitherLongOperationsNorOutsideOfTheModelNorALayers) {
  EXPECT_FALSE(seen_in("/home/a/crf.py:58 Crf.advance" + std::string(kForward), true));
  EXPECT_FALSE(seen_in("/home/a/train.py:58 metric\n/home/a/train.py:40 main"));
  EXPECT_FALSE(
      seen_in("/v/site-packages/torch/nn/modules/linear.py:134 Linear.forward" + std::string(kForward)));
}

}  // namespace
}  // namespace gpuwatch::model
