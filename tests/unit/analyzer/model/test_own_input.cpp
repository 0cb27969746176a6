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
  for (const char* function :
       {"get_batch", "Corpus.next_batch", "_load_train_batch", "makeBatch", "Clips.__next__",
        "Pairs.__getitem__", "sample_minibatch", "ReplayBuffer.sample", "ReplayMemory._draw"})
    EXPECT_TRUE(code_in("/home/a/train.py:12 " + std::string(function) + "\n/home/a/train.py:41 main"))
        << function;
  for (const char* function : {"train_batch", "main", "forward", "getattr", "batch_loss", "step",
                               "Agent.sample", "ReplayBuffer.push"})
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

// GluonTS hands Lightning its own iterator; its stacks are deeper than what is recorded of them.
TEST(DataCode, IsAnIteratorOfALibraryThatTheLoopIteratesOver) {
  const std::string batches =
      "/v/site-packages/pandas/core/period.py:111 year\n/v/site-packages/gluonts/transform/_base.py:134 "
      "Transform.__call__*\n/v/site-packages/gluonts/itertools.py:422 IterableSlice.__iter__*\n";
  const auto fetched = code_in(batches +
                               "/v/site-packages/lightning/pytorch/loops/fetchers.py:61 "
                               "_DataFetcher.__next__\n/home/a/train.py:41 main");
  ASSERT_TRUE(fetched);
  EXPECT_EQ(fetched->function.function, "IterableSlice.__iter__");
  EXPECT_EQ(fetched->line.location(), "/home/a/train.py:41");
  EXPECT_TRUE(code_in(batches + "/home/a/train.py:41 main"));
  const auto shown =
      code_in(batches + "/v/site-packages/tqdm/std.py:9 tqdm.__iter__*\n/home/a/train.py:41 m");
  ASSERT_TRUE(shown);
  EXPECT_EQ(shown->function.function, "IterableSlice.__iter__");
  std::string deep = "/v/site-packages/pandas/core/period.py:111 year";
  for (int i = 1; i < 16; ++i) deep += "\n/v/site-packages/gluonts/transform/_base.py:134 Map.__call__*";
  ASSERT_TRUE(code_in(deep));
  EXPECT_EQ(code_in(deep)->line.file, "/v/site-packages/gluonts/transform/_base.py");
}

TEST(DataCode, IsNoGeneratorThatALibraryUsesWithinACall) {
  // joblib's tasks, a context, a framework's own loop, the optimizer's parameters
  EXPECT_FALSE(
      code_in("/v/site-packages/joblib/parallel.py:9 Parallel._get_sequential_output*\n/v/site-packages/"
              "joblib/parallel.py:7 Parallel.__call__\n/home/a/train.py:41 main"));
  EXPECT_FALSE(
      code_in("/v/site-packages/matplotlib/__init__.py:9 rc_context*\n"
              "/usr/lib/python3.11/contextlib.py:137 __enter__\n/home/a/train.py:41 main"));
  EXPECT_FALSE(code_in("/v/site-packages/lightning/pytorch/loops/fit.py:9 run*\n/home/a/train.py:41 main"));
  EXPECT_FALSE(
      code_in("/v/site-packages/torch/nn/modules/module.py:9 parameters*\n/home/a/train.py:41 main"));
  std::string deep = "/v/site-packages/sklearn/tree.py:1 grow*";
  for (int i = 1; i < 16; ++i) deep += "\n/v/site-packages/sklearn/tree.py:9 fit";
  EXPECT_FALSE(code_in(deep)) << "cut within a call";
}

// Four samples of five are of the first text.
class OwnInputTest : public testing::Test {
 protected:
  std::optional<OwnInput> seen(const std::string& mostly, const std::string& else_, Ns until = 1000) {
    run.texts[1] = mostly;
    run.texts[2] = else_;
    process.pid = 7;
    process.threads.resize(1);
    for (Ns time = 0; time < until; time += 10)
      process.threads[0].worker_stacks.push_back({time, 40, time % 50 == 0 ? 2u : 1u, 7});
    return own_input(run, process, {{0, until}});
  }
  model::Run run;
  Process process;
};

TEST_F(OwnInputTest, OfALibraryIsAtTheLineThatTheScriptCallsItFrom) {
  std::string deep = "/v/site-packages/gluonts/transform/_base.py:134 Map.__call__*";
  for (int i = 1; i < 16; ++i) deep += "\n/v/site-packages/gluonts/transform/_base.py:134 Map.__call__*";
  const auto input =
      seen(deep, "/v/site-packages/torch/_tensor.py:500 backward\n/home/a/train.py:7 <module>");
  ASSERT_TRUE(input);
  EXPECT_EQ(input->function.function, "Map.__call__");
  EXPECT_EQ(input->line.location(), "/home/a/train.py:7");
}

constexpr const char* kBatches =
    "/home/a/train.py:12 decode\n/home/a/train.py:20 batches*\n/home/a/train.py:41 main";
constexpr const char* kMain = "/home/a/train.py:42 main";

TEST_F(OwnInputTest, HasTheShareOfItsSamples) {
  const auto input = seen(kBatches, kMain);
  ASSERT_TRUE(input);
  EXPECT_NEAR(input->share.share, 0.8, 1e-9);
  EXPECT_NEAR(input->share.low, 0.711, 0.002);  // Wilson, 80 of 100
  EXPECT_NEAR(input->share.high, 0.867, 0.002);
  EXPECT_EQ(input->function.function, "batches");
}

TEST_F(OwnInputTest, NeedsTenSamples) {
  EXPECT_FALSE(seen(kBatches, kMain, 90));
}

// "for batch in feed()", where feed() takes what a thread or a pool makes. What a socket brings it reads
// itself.
TEST(DataCode, IsNotWhereItWaitsForTheProgram) {
  const std::string loop = "/home/a/train.py:26 feed*\n/home/a/train.py:41 main";
  for (const char* wait :
       {"/usr/lib/python3.11/threading.py:327 Condition.wait\n/usr/lib/python3.11/queue.py:171 "
        "Queue.get\n",
        "/usr/lib/python3.11/threading.py:327 Condition.wait\n"
        "/usr/lib/python3.11/multiprocessing/pool.py:768 ApplyResult.get\n",
        "/usr/lib/python3.11/multiprocessing/connection.py:395 Connection._recv\n"}) {
    EXPECT_FALSE(code_in(wait + loop)) << wait;
    const auto awaited = awaited_data_code(frames_of(wait + loop));
    ASSERT_TRUE(awaited) << wait;
    EXPECT_EQ(awaited->function.function, "feed");
  }
  EXPECT_TRUE(code_in("/usr/lib/python3.11/socket.py:706 SocketIO.readinto\n" + loop));
  EXPECT_FALSE(awaited_data_code(frames_of(loop)));
}

}  // namespace
}  // namespace gpuwatch::model
