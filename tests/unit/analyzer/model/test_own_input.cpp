// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "analyzer/model/own_input.h"

namespace gpuwatch::model {
namespace {

std::optional<DataCode> code_in(const std::string& text) {
  return data_code(frames_of(text));
}

TEST(DataCode, IsAGeneratorOfTheScript) {
  const auto code = code_in(
      "/v/site-packages/numpy/lib/npyio.py:400 load\n/home/a/train.py:12 decode\n/home/a/train.py:20 "
      "batches*\n/home/a/train.py:41 main");
  ASSERT_TRUE(code);
  EXPECT_EQ(code->function.function, "batches");
  EXPECT_EQ(code->line.location(), "/home/a/train.py:12");
}

TEST(DataCode, IsWhatIsNamedForIt) {
  for (const char* function : {"get_batch", "Corpus.next_batch", "_load_train_batch", "makeBatch",
                               "Clips.__next__", "Pairs.__getitem__", "sample_minibatch"})
    EXPECT_TRUE(code_in("/home/a/train.py:12 " + std::string(function) + "\n/home/a/train.py:41 main"))
        << function;
  for (const char* function : {"train_batch", "main", "forward", "getattr", "batch_loss", "step"})
    EXPECT_FALSE(code_in("/home/a/train.py:12 " + std::string(function) + "\n/home/a/train.py:41 main"))
        << function;
}

TEST(DataCode, IsNotTheModelThatAGeneratorRuns) {
  EXPECT_FALSE(
      code_in("/home/a/model.py:7 forward\n/v/site-packages/torch/nn/modules/module.py:1500 "
              "_call_impl\n/home/a/train.py:20 train*\n/home/a/train.py:41 main"));
  EXPECT_FALSE(code_in("/v/site-packages/jax/_src/pjit.py:300 cache_miss\n/home/a/train.py:20 train*"));
  // a sampler's generator within PyTorch, an expression
  EXPECT_FALSE(code_in("/v/site-packages/torch/utils/data/sampler.py:5 __iter__*\n/home/a/train.py:41 main"));
  EXPECT_FALSE(code_in("/home/a/train.py:12 <genexpr>*\n/home/a/train.py:41 main"));
}

TEST(DataCode, TransformsAreModulesButNoModel) {
  EXPECT_TRUE(
      code_in("/v/site-packages/torchvision/transforms/v2/_geometry.py:9 forward\n"
              "/v/site-packages/torch/nn/modules/module.py:1500 _call_impl\n/home/a/train.py:20 "
              "batches*\n/home/a/train.py:41 main"));
}

TEST(OwnInput, HasTheShareOfItsSamples) {
  model::Run run;
  Process process;
  process.pid = 7;
  process.threads.resize(1);
  run.texts[1] = "/home/a/train.py:12 decode\n/home/a/train.py:20 batches*\n/home/a/train.py:41 main";
  run.texts[2] = "/home/a/train.py:42 main";
  for (Ns time = 0; time < 1000; time += 10)
    process.threads[0].worker_stacks.push_back({time, 40, time % 50 == 0 ? 2u : 1u, 7});
  const auto input = own_input(run, process, {{0, 1000}});
  ASSERT_TRUE(input);
  EXPECT_NEAR(input->share.share, 0.8, 1e-9);
  EXPECT_NEAR(input->share.low, 0.711, 0.002);  // Wilson, 80 of 100
  EXPECT_NEAR(input->share.high, 0.867, 0.002);
  EXPECT_EQ(input->function.function, "batches");
  EXPECT_FALSE(own_input(run, process, {{0, 90}}));  // nine samples
}

}  // namespace
}  // namespace gpuwatch::model
