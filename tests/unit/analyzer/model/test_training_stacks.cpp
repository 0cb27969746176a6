// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "analyzer/model/other_threads.h"
#include "analyzer/model/script_work.h"
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

// Of 30 samples 12 with another thread that executed Python: 8 in make, 4 in tokenize. PyTorch's own thread,
// which runs the script's backward(), is none.
TEST_F(TrainingStacks, OtherThreadsAreThoseThatPythonStarted) {
  constexpr uint32_t kMake = 3, kCount = 4, kBackward = 5;
  run.texts[kMake] =
      "/home/a/train.py:7 make\n/home/a/train.py:9 produce\n/usr/lib/python3.11/threading.py:982 "
      "Thread._bootstrap";
  run.texts[kCount] = "/home/a/train.py:30 count\n/usr/lib/python3.11/threading.py:982 Thread._bootstrap";
  run.texts[kBackward] =
      "/home/a/train.py:50 Scale.backward\n/v/site-packages/torch/autograd/function.py:3 apply";
  const uint32_t others[] = {kMake, kMake, kCount, kBackward, 0};
  for (Ns i = 0; i < 30; ++i) {
    see(10 * i, kTokenize);
    const uint32_t text = i < 20 ? others[i % 5] : 0;
    if (text) process.threads[1].worker_stacks.push_back({10 * i, 40, text, kOfAnotherThread});
  }
  const auto work = other_thread_work(run, process, {{0, 300}});
  ASSERT_TRUE(work);
  EXPECT_EQ(work->samples, 30u);
  EXPECT_NEAR(work->share.share, 0.4, 1e-9);
  EXPECT_EQ(work->line.location(), "/home/a/train.py:7");
  EXPECT_NEAR(work->of_threads, 2.0 / 3, 1e-9);
  EXPECT_FALSE(other_thread_work(run, process, {{200, 300}}));
  EXPECT_EQ(training_functions(run, process, {{0, 300}}).size(), 1u);
}

// TensorBoard's thread writes what add_histogram() gave it.
TEST_F(TrainingStacks, OfAPackagesThreadTheCallerIsNamed) {
  constexpr uint32_t kWriter = 3, kCalls = 4;
  run.texts[kWriter] =
      "/v/site-packages/tensorboard/compat/pywrap.py:141 crc_update\n/usr/lib/python3.11/threading.py:982 "
      "Thread._bootstrap";
  run.texts[kCalls] =
      "/v/site-packages/torch/utils/tensorboard/writer.py:9 SummaryWriter.add_histogram\n/home/a/train.py:16 "
      "main";
  for (Ns i = 0; i < 30; ++i) {
    see(10 * i, i % 3 ? kTokenize : kCalls);
    process.threads[1].worker_stacks.push_back({10 * i, 40, kWriter, kOfAnotherThread});
  }
  const auto work = other_thread_work(run, process, {{0, 300}});
  ASSERT_TRUE(work);
  EXPECT_EQ(work->package, "tensorboard");
  ASSERT_TRUE(work->called_at);
  EXPECT_EQ(work->called_at->location(), "/home/a/train.py:16");
}

// The user's line is one call: trainer.train().
TEST_F(TrainingStacks, InnermostFunctionsAreThePackages) {
  run.texts[3] =
      "/v/site-packages/torch/nn/modules/linear.py:9 forward\n"
      "/v/site-packages/bert/modeling.py:7 Layer.forward\n/home/a/train.py:42 main";
  run.texts[4] = "/v/site-packages/torch/_tensor.py:9 backward\n/home/a/train.py:42 main";
  for (Ns time = 0; time < 300; time += 10) see(time, time % 30 == 0 ? 4 : 3);
  EXPECT_EQ(training_functions(run, process, {{0, 300}}).size(), 1u);
  const auto functions = innermost_functions(run, process, {{0, 300}});
  ASSERT_EQ(functions.size(), 2u);
  EXPECT_EQ(functions[0].frame.function, "Layer.forward");
  EXPECT_EQ(functions[1].frame.location(), "/home/a/train.py:42");
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

const char* const kMetric =
    "/v/site-packages/numpy/lib/arraysetops.py:9 unique\n"
    "/v/site-packages/sklearn/metrics/_ranking.py:200 roc_auc_score\n"
    "/home/a/train.py:55 evaluate\n"
    "/v/site-packages/torch/utils/_contextlib.py:120 decorate_context\n"
    "/home/a/train.py:90 main";

std::optional<LibraryCall> call_in(const std::string& text) {
  return library_call(frames_of(text));
}

TEST(LibraryCall, IsTheLibraryThatTheScriptCalled) {
  const auto call = call_in(kMetric);
  ASSERT_TRUE(call);
  EXPECT_EQ(call->library, "sklearn");
  EXPECT_EQ(call->caller.location(), "/home/a/train.py:55");
  EXPECT_EQ(call_in("/usr/lib/python3.11/json/decoder.py:3 decode\n/home/a/train.py:5 main")->library,
            "json");
}

// sentence-transformers tokenizes in collate_fn; default_collate has nothing of its own, and a step is no
// fetch.
TEST_F(TrainingStacks, KnowWhatMakesABatch) {
  const std::string fetch =
      "\n/v/site-packages/torch/utils/data/_utils/fetch.py:57 _MapDatasetFetcher.fetch\n/home/a/train.py:42 "
      "main";
  run.texts[1] =
      "/v/site-packages/transformers/tokenization.py:9 encode\n"
      "/v/site-packages/sentence_transformers/fit.py:7 collate" +
      fetch;
  run.texts[2] = "/v/site-packages/torch/utils/data/_utils/collate.py:9 default_collate" + fetch;
  run.texts[3] = "/home/a/train.py:42 main";
  for (Ns time = 0; time < 300; time += 10) see(time, 1 + uint32_t(time / 10) % 3);
  const std::vector<SeenFunction> functions = fetch_functions(run, process, {{0, 300}});
  ASSERT_EQ(functions.size(), 1u);
  EXPECT_EQ(functions[0].frame.function, "encode");
  EXPECT_EQ(functions[0].samples, 10u);
}

// deepctr_torch's fit() calls scikit-learn for its metrics in each step; "the work in deepctr_torch" was the
// model, too.
TEST(LibraryCall, IsWhatALibraryThatTrainsCalls) {
  const std::string fit =
      "/v/site-packages/deepctr_torch/models/basemodel.py:264 BaseModel.fit\n"
      "/home/a/train.py:12 <module>";
  LoopLibraries loops;
  note_loops(frames_of("/v/site-packages/sklearn/metrics/_classification.py:3240 log_loss\n" + fit), loops);
  EXPECT_TRUE(loops.empty());
  note_loops(frames_of("/v/site-packages/torch/_tensor.py:500 Tensor.backward\n" + fit), loops);
  EXPECT_EQ(loops, LoopLibraries{"deepctr_torch"});
  const auto metric =
      library_call(frames_of("/v/site-packages/sklearn/metrics/_classification.py:3240 log_loss\n"
                             "/v/site-packages/deepctr_torch/models/basemodel.py:494 BaseModel._log_loss\n" +
                             fit),
                   loops);
  ASSERT_TRUE(metric);
  EXPECT_EQ(metric->library, "sklearn");
  EXPECT_EQ(metric->caller.location(), "/home/a/train.py:12");
  EXPECT_FALSE(library_call(frames_of("/v/site-packages/deepctr_torch/models/basemodel.py:430 "
                                      "BaseModel.get_regularization_loss\n" +
                                      fit),
                            loops))
      << "it may be the model";
}

// A loop that was always seen with the same stack, and a line with many.
TEST(FunctionTallies, NameTheLineWithTheMostTime) {
  FunctionTallies tallies;
  tallies.add({"/home/a/train.py", 13, "<module>"}, 22);
  for (int time = 0; time < 3; ++time) tallies.add({"/home/a/train.py", 9, "<module>"}, 1);
  EXPECT_EQ(tallies.by_share().front().frame.line, 13u);
}

TEST(UsersFrame, IsTheStartScriptWhereThereIsNothingElse) {
  const StackFrame start{"/v/bin/train", 8, "<module>"},
      torch{"/v/site-packages/torch/_tensor.py", 5, "backward"},
      package{"/v/site-packages/trainer/cli.py", 9, "main"};
  EXPECT_EQ(users_frame({torch, start})->line, 8u);
  EXPECT_EQ(users_frame({torch, package, start})->line, 9u);
}

TEST(IsUsers, IsNoStartScriptOfAPackage) {
  EXPECT_FALSE(is_users({"/v/bin/yolo", 8, "<module>"}));
  EXPECT_TRUE(is_users({"/v/bin/train.py", 8, "<module>"}));
  EXPECT_TRUE(is_users({"/home/a/bin/train", 8, "main"}));
  EXPECT_TRUE(is_users({"/home/a/train", 8, "<module>"}));
}

TEST(LibraryCall, IsSeenWhereTheRecordedStackEndsInTheLibrary) {
  std::string deep = "/v/site-packages/pyparsing/core.py:812 ParserElement._parseNoCache";
  for (int i = 1; i < 16; ++i) deep += "\n/v/site-packages/matplotlib/_mathtext.py:9 parse";
  ASSERT_TRUE(call_in(deep));
  EXPECT_EQ(call_in(deep)->library, "matplotlib");
  EXPECT_EQ(call_in(deep)->caller.file, "");
  EXPECT_FALSE(call_in(deep.substr(0, deep.rfind('\n'))))
      << "a whole stack without the script is no script's work";
  EXPECT_FALSE(call_in("/v/site-packages/torch/nn/functional.py:3 relu\n" + deep));
}

TEST(LibraryCall, IsNeitherWaitingNorMakingData) {
  EXPECT_FALSE(call_in(
      "/usr/lib/python3.11/threading.py:320 Condition.wait\n/usr/lib/python3.11/queue.py:171 Queue.get\n"
      "/home/a/train.py:95 main"));
  EXPECT_FALSE(
      call_in("/v/site-packages/PIL/Image.py:9 Image.resize\n/home/a/train.py:12 "
              "batches*\n/home/a/train.py:95 main"));
}

TEST(LibraryCall, ModelsAreNone) {
  for (const char* text :
       {"/v/site-packages/torch/_tensor.py:500 backward\n/home/a/train.py:5 main",
        // NumPy for the model's sake
        "/v/site-packages/numpy/core/a.py:5 dot\n/v/site-packages/torch/_tensor.py:9 "
        "numpy\n/home/a/train.py:5 main",
        // the script's own forward
        "/v/site-packages/scipy/special.py:9 erf\n/home/a/model.py:7 forward\n"
        "/v/site-packages/torch/nn/modules/module.py:1500 _call_impl\n/home/a/train.py:5 main",
        // a call into C: of which library is not seen
        "/home/a/train.py:5 main",
        // a loop that is nobody's work
        "/v/site-packages/lightning/loops/fit.py:5 run\n/home/a/train.py:5 main", ""})
    EXPECT_FALSE(call_in(text)) << text;
}

TEST_F(TrainingStacks, ShareOfLibrariesHasItsInterval) {
  run.texts[3] = kMetric;
  run.texts[4] = "/v/site-packages/torch/_tensor.py:500 backward\n/home/a/train.py:80 main";
  for (Ns time = 0; time < 1000; time += 10) see(time, time % 40 == 0 ? 4 : 3);
  const auto work = script_work(run, process, {{0, 1000}});
  ASSERT_TRUE(work);
  EXPECT_NEAR(work->share.share, 0.75, 1e-9);
  EXPECT_NEAR(work->share.low, 0.657, 0.002);  // Wilson, 75 of 100
  EXPECT_NEAR(work->share.high, 0.825, 0.002);
  EXPECT_EQ(work->library, "sklearn");
  EXPECT_FALSE(script_work(run, process, {{0, 80}}));  // eight samples
}

constexpr char kLightning[] =
    "/home/a/train.py:80 training_step\n/v/site-packages/lightning/pytorch/strategies/strategy.py:5 "
    "training_step\n/v/site-packages/torch/optim/adamw.py:9 step\n/home/a/train.py:95 main";

TEST(OwnLine, IsTheScriptsAndNoPartOfTheModel) {
  const auto line = [](const std::string& text) { return own_line(frames_of(text)); };
  ASSERT_TRUE(line("/home/a/train.py:48 batch_hard_loop\n/home/a/train.py:90 main"));
  EXPECT_EQ(line("/home/a/train.py:48 batch_hard_loop\n/home/a/train.py:90 main")->line, 48u);
  EXPECT_TRUE(line("/v/site-packages/torch/nn/functional.py:9 relu\n/home/a/train.py:48 mine"))
      << "one operation";
  EXPECT_TRUE(line("/v/site-packages/torch/_tensor.py:9 __rsub__\n/home/a/train.py:48 mine"));
  EXPECT_TRUE(line("/home/a/train.py:48 mine\n" + std::string(kLightning)))
      << "the closure of the optimizer's step";
  for (const char* text : {
           "/v/site-packages/torch/_tensor.py:500 backward\n/home/a/train.py:5 main",
           "/v/site-packages/torch/nn/modules/module.py:9 _call_impl\n/home/a/train.py:5 main",
           "/home/a/model.py:7 forward\n/v/site-packages/torch/nn/modules/module.py:9 _call_impl\n"
           "/home/a/train.py:5 main",
           "/v/site-packages/lightning/loops/fit.py:5 run\n/home/a/train.py:5 main",
           "/v/site-packages/tensorflow/python/ops.py:5 add\n/home/a/train.py:5 main",
           "/home/a/train.py:12 batches*\n/home/a/train.py:95 main",
           "/v/site-packages/lightning/loops/fit.py:5 run",
       })
    EXPECT_FALSE(line(text)) << text;
}

TEST(LibraryCall, IsSeenWithinTheStepOfLightningsOptimizer) {
  const auto call = call_in("/v/site-packages/sklearn/metrics/_ranking.py:9 auc\n" + std::string(kLightning));
  ASSERT_TRUE(call);
  EXPECT_EQ(call->library, "sklearn");
}

TEST_F(TrainingStacks, OwnLinesCountWhereTheyWereSeenToGoOn) {
  run.texts[4] = "/v/site-packages/torch/autograd/graph.py:5 _engine_run_backward\n/home/a/train.py:80 main";
  const auto see_running = [&](Ns time, uint32_t text) {
    see(time, text);
    process.threads[1].worker_stacks.back().interprets = true;
  };
  for (Ns time = 0; time < 1000; time += 10) {
    if (time % 40 == 0)
      see_running(time, kMeasure);
    else if (time % 40 == 10)
      see(time, 4);
    else
      see(time, kMeasure);  // in one call into C
  }
  EXPECT_FALSE(script_work(run, process, {{0, 1000}}));
  const auto work = script_work(run, process, {{0, 1000}}, ScriptPart::kAll);
  ASSERT_TRUE(work);
  EXPECT_NEAR(work->share.share, 0.25, 1e-9);
  EXPECT_NEAR(work->backward.share, 0.25, 1e-9);
  EXPECT_EQ(work->library, "");
  EXPECT_EQ(work->caller.function, "measure");
}

constexpr char kHook[] =
    "/home/a/train.py:12 watch.<locals>.hook\n"
    "/v/site-packages/torch/nn/modules/module.py:1808 Module._call_impl.<locals>.inner\n"
    "/v/site-packages/torch/nn/modules/module.py:1900 Module._call_impl\n/home/a/train.py:80 main";

TEST(HookFunction, IsCalledByAModuleOrTheBackwardPass) {
  const auto hook = [](const std::string& text) { return hook_function(frames_of(text)); };
  ASSERT_TRUE(hook(kHook));
  EXPECT_EQ(hook(kHook)->frame.location(), "/home/a/train.py:12");
  EXPECT_FALSE(hook(kHook)->is_callback);
  const std::string in_backward =
      "\n/v/site-packages/torch/autograd/graph.py:979 _engine_run_backward\n/home/a/train.py:80 main";
  EXPECT_TRUE(
      hook("/v/site-packages/numpy/lib/a.py:9 percentile\n/home/a/train.py:9 <lambda>" + in_backward));
  EXPECT_TRUE(hook("/home/a/train.py:9 keep\n/v/site-packages/torch/utils/hooks.py:120 BackwardHook.fn"));
  for (
      const std::string& text : {
          // the script's own modules, and their forward() replaced
          std::string(
              "/home/a/model.py:7 Net.forward\n"
              "/v/site-packages/torch/nn/modules/module.py:1900 Module._call_impl\n/home/a/train.py:80 main"),
          std::string(
              "/home/a/model.py:7 patched_forward\n"
              "/v/site-packages/torch/nn/modules/module.py:1900 Module._call_impl\n/home/a/train.py:80 main"),
          // it computes a part of the model, or steps the optimizer
          "/v/site-packages/torch/nn/modules/linear.py:134 Linear.forward\n" + std::string(kHook),
          "/v/site-packages/torch/optim/sgd.py:9 SGD.step\n/home/a/train.py:9 step_now" + in_backward,
          // what a module does to itself
          std::string("/home/a/model.py:7 init_weights\n/v/site-packages/torch/nn/modules/module.py:1000 "
                      "Module.apply\n"
                      "/home/a/train.py:80 main"),
          std::string("/home/a/train.py:80 main"),
      })
    EXPECT_FALSE(hook(text)) << text;
}

TEST(HookFunction, IsACallbackOfWhatHoldsTheLoop) {
  const auto callback = [](const std::string& within, const std::string& caller) {
    const auto hook =
        hook_function(frames_of(within + "/home/a/train.py:12 Watch.on_batch_end\n/v/site-packages/" +
                                caller + "\n/home/a/train.py:80 main"));
    return hook && hook->is_callback && hook->frame.function == "Watch.on_batch_end";
  };
  const std::string statistics =
      "/v/site-packages/keras/src/backend/tensorflow/core.py:172 convert_to_numpy\n"
      "/home/a/train.py:12 Watch.on_batch_end.<locals>.<dictcomp>\n";
  const std::string keras = "keras/src/callbacks/callback_list.py:198 CallbackList.on_train_batch_end";
  EXPECT_TRUE(callback(statistics, keras));
  EXPECT_TRUE(callback("/v/site-packages/keras/src/layers/layer.py:9 Layer.trainable_weights\n", keras));
  EXPECT_FALSE(callback("/v/site-packages/keras/src/layers/layer.py:9 Layer.__call__\n", keras));
  EXPECT_TRUE(callback("", "lightning/pytorch/trainer/call.py:228 _call_callback_hooks"));
  EXPECT_FALSE(callback("", "lightning/pytorch/trainer/call.py:177 _call_lightning_module_hook"));
  EXPECT_TRUE(callback("", "transformers/trainer_callback.py:556 CallbackHandler.call_event"));
  EXPECT_TRUE(callback("", "ignite/engine/engine.py:453 Engine._fire_event"));
  EXPECT_FALSE(callback(
      "/v/site-packages/keras/src/backend/tensorflow/trainer.py:480 TensorFlowTrainer.evaluate\n", keras));
}

TEST_F(TrainingStacks, HooksCountUnlessTheyCallTheModel) {
  run.texts[4] = kHook;
  run.texts[5] = "/v/site-packages/torch/nn/modules/linear.py:134 Linear.forward\n/home/a/train.py:80 main";
  run.texts[6] = "/v/site-packages/torch/nn/modules/linear.py:134 Linear.forward\n" + std::string(kHook);
  for (Ns time = 0; time < 1000; time += 10) see(time, time % 40 == 0 ? 5 : 4);
  EXPECT_FALSE(script_work(run, process, {{0, 1000}}));
  const auto work = script_work(run, process, {{0, 1000}}, ScriptPart::kAll);
  ASSERT_TRUE(work);
  EXPECT_EQ(work->place, ScriptPlace::kHook);
  EXPECT_NEAR(work->share.share, 0.75, 1e-9);
  EXPECT_EQ(work->caller.function, "watch.<locals>.hook");
  see(1000, 6);  // once it was seen to call a layer: the model may be in it
  EXPECT_FALSE(script_work(run, process, {{0, 1010}}, ScriptPart::kAll));
}

// copy.deepcopy() of a model calls its tensors, which copy themselves.
TEST(LibraryCall, CopiesOfTheModelAreNoPartOfIt) {
  const std::string copied =
      "/v/site-packages/torch/_tensor.py:150 Tensor.__deepcopy__\n/usr/lib/python3.11/copy.py:153 deepcopy";
  const auto call = call_in(copied + "\n/home/a/train.py:16 average\n/home/a/train.py:80 main");
  ASSERT_TRUE(call);
  EXPECT_EQ(call->library, "copy");
  EXPECT_EQ(call->caller.location(), "/home/a/train.py:16");
  EXPECT_FALSE(call_in(copied +
                       "\n/home/a/model.py:7 Net.forward\n/v/site-packages/torch/nn/modules/module.py:1500 "
                       "Module._call_impl\n/home/a/train.py:5 main"));
}

// An environment of a library, and the script's wrapper around it: each is told with its own share.
TEST_F(TrainingStacks, LibrariesAndOwnLinesAreNotTakenTogether) {
  run.texts[5] = "/v/site-packages/gymnasium/core.py:9 step\n/home/a/train.py:30 play";
  run.texts[6] = "/v/site-packages/torch/_tensor.py:500 backward\n/home/a/train.py:80 main";
  for (Ns time = 0; time < 1000; time += 10) {
    see(time, time % 100 < 30 ? 5u : time % 100 < 50 ? kMeasure : 6u);
    process.threads[1].worker_stacks.back().interprets = time % 100 < 50;
  }
  const auto work = script_work(run, process, {{0, 1000}}, ScriptPart::kAll);
  ASSERT_TRUE(work);
  EXPECT_EQ(work->library, "gymnasium");
  EXPECT_NEAR(work->share.share, 0.3, 1e-9);
}

}  // namespace
}  // namespace gpuwatch::model
