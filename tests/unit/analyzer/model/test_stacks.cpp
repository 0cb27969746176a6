// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "analyzer/model/stacks.h"

namespace gpuwatch::model {
namespace {

constexpr const char* kPackages = "/home/u/venv/lib/python3.11/site-packages/";
constexpr const char* kLibrary = "/usr/lib/python3.11/";

std::string in(const char* folder, const std::string& rest) {
  return folder + rest;
}

TEST(Frames, AreReadLineByLineAndOddOnesLeftOut) {
  const auto frames =
      frames_of("/a b/tr:ain.py:31 Net.forward\nno frame\nx.py:y f\n<stdin>:1 <module>\n\n:7 f");
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[0].file, "/a b/tr:ain.py");
  EXPECT_EQ(frames[0].line, 31u);
  EXPECT_EQ(frames[0].function, "Net.forward");
  EXPECT_EQ(frames[0].location(), "/a b/tr:ain.py:31");
  EXPECT_EQ(frames[1].file, "<stdin>");
  EXPECT_EQ(frames[2].file, "");
  EXPECT_TRUE(frames_of("").empty());
}

TEST(Frames, OfAComprehensionAreTheFunctionsItStandsIn) {
  const auto frames = frames_of(
      "/a/train.py:9 make.<locals>.<listcomp>.<genexpr>*\n/a/train.py:9 make.<locals>.<listcomp>\n"
      "/a/train.py:8 make\n/a/train.py:5 <lambda>\n/b/other.py:3 <listcomp>\n/a/train.py:2 main");
  ASSERT_EQ(frames.size(), 6u);
  EXPECT_EQ(frames[0].function, "make");
  EXPECT_FALSE(frames[0].is_generator);
  EXPECT_EQ(frames[0].line, 9u);
  EXPECT_EQ(frames[1].function, "make");
  EXPECT_EQ(frames[3].function, "<lambda>");
  EXPECT_EQ(frames[4].function, "<listcomp>") << "another file";
}

TEST(Frames, OfANativeStackAreAddresses) {
  EXPECT_EQ(addresses_of("0x7f01\n0xa\n0xffffffffffffffff"),
            (std::vector<uint64_t>{0x7f01, 0xa, 0xffffffffffffffff}));
  EXPECT_EQ(addresses_of("0x1\n0xg\n0x2"), std::vector<uint64_t>{1});
  EXPECT_EQ(addresses_of("0x1\n0x10000000000000000"), std::vector<uint64_t>{1});
  EXPECT_TRUE(addresses_of("a.py:1 f").empty());
  EXPECT_TRUE(addresses_of("0x").empty());
  EXPECT_TRUE(frames_of("0x7f01\n0xa").empty());
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "0x1\n";
  EXPECT_EQ(addresses_of(text).size(), 64u);
}

TEST(SampleCode, IsTheUsersOwn) {
  Loader loader;
  EXPECT_FALSE(sample_code(loader));
  loader.code = "/w/data.py:41 Samples.__getitem__";
  EXPECT_EQ(sample_code(loader)->location(), "/w/data.py:41");
  loader.code = in(kPackages, "torchvision/datasets/folder.py:9 ImageFolder.__getitem__");
  EXPECT_FALSE(sample_code(loader));
}

TEST(Frames, AreBounded) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "a.py:1 f\n";
  EXPECT_EQ(frames_of(text).size(), 64u);
}

TEST(UsersFrame, IsTheInnermostOutsideLibraries) {
  const auto frames =
      frames_of(in(kLibrary, "threading.py:5 wait") + "\n" + in(kPackages, "torch/a.py:1 f") + "\n" +
                in(kPackages, "timm/b.py:2 g") + "\n/home/u/train.py:3 main\n/home/u/x.py:4 y");
  ASSERT_EQ(frames.size(), 5u);
  EXPECT_EQ(users_frame(frames)->file, "/home/u/train.py");
}

TEST(UsersFrame, IsAPackagesWhereNothingIsTheUsers) {
  const auto frames = frames_of(in(kPackages, "torch/a.py:1 f") + "\n" + in(kPackages, "timm/b.py:2 g") +
                                "\n<frozen runpy>:8 _run_code");
  EXPECT_EQ(users_frame(frames)->function, "g");
  EXPECT_EQ(users_frame(frames_of("<frozen runpy>:8 _run_code")), nullptr);
}

HostCall call(Ns begin, uint16_t operation, uint32_t detail = kNone) {
  return {begin, begin + 10, 0, 0, detail, operation, trace::OpClass::Sync, 0};
}

class StackOfACall : public testing::Test {
 protected:
  void SetUp() override {
    run.texts = {{1, in(kPackages, "torch/_tensor.py:9 item") + "\n/w/train.py:20 step"},
                 {2, "/w/train.py:30 log"}};
    thread.event_details.resize(2);
    thread.event_details[0].mutate_caller(100);
    thread.event_details[1].mutate_caller(200);
    thread.calls = {call(10, 4, 0), call(30, 4, 0), call(50, 4, 0), call(70, 4, 1), call(90, 4, 0)};
    thread.stacks = {{10, 1}, {30, 1}, {50, 2}, {99, 2}};
  }
  model::Run run;
  Thread thread;
};

TEST_F(StackOfACall, IsTheOneThatBeganWithIt) {
  EXPECT_EQ(*stack_of(run, thread, thread.calls[2]), "/w/train.py:30 log");
  EXPECT_EQ(stack_of(run, thread, thread.calls[4]), nullptr);
  EXPECT_EQ(users_line_of(run, thread, thread.calls[2])->location(), "/w/train.py:30");
}

TEST_F(StackOfACall, IsThatOfMostAlikeWhereItHasNone) {
  EXPECT_EQ(users_line_of(run, thread, thread.calls[4])->location(), "/w/train.py:20");
  EXPECT_FALSE(users_line_of(run, thread, thread.calls[3]));  // another caller: another place
}

TEST_F(StackOfACall, MayNameATextThatIsMissing) {
  run.texts.clear();
  EXPECT_EQ(stack_of(run, thread, thread.calls[0]), nullptr);
  EXPECT_FALSE(users_line_of(run, thread, thread.calls[0]));
}

class Activity : public testing::Test {
 protected:
  void SetUp() override {
    const std::string loop =
        "\n" + in(kPackages, "torch/utils/data/_utils/worker.py:300 _worker_loop") + "\n/w/train.py:99 main";
    const std::string fetch = "\n" + in(kPackages, "torch/utils/data/_utils/fetch.py:54 fetch");
    run.texts = {{1, in(kPackages, "PIL/Image.py:7 decode") + "\n/w/data.py:41 augment" + fetch + loop},
                 {2, "/w/data.py:44 augment" + fetch + loop},
                 {3, "/w/data.py:60 Set.read" + fetch + loop},
                 {4, in(kLibrary, "selectors.py:1 select") + "\n" +
                         in(kLibrary, "multiprocessing/queues.py:113 Queue.get") + loop},
                 {5, in(kLibrary, "threading.py:1 notify") + "\n" +
                         in(kLibrary, "multiprocessing/queues.py:90 Queue.put") + loop},
                 {6, in(kLibrary, "importlib/x.py:1 load")}};
    process.loaders.resize(2);
    process.threads.resize(1);
    process.epochs.resize(2);
    process.epochs[0].workers = {{0, 11, kNone, 1000}, {1, 12, kNone, 0}};
    process.epochs[1].loader = 1;
    process.epochs[1].workers = {{0, 13, kNone, 1000}};
  }
  void add(Ns time, Ns weight, uint32_t text, uint32_t pid) {
    process.threads[0].worker_stacks.push_back({time, weight, text, pid});
  }
  model::Run run;
  Process process;
};

TEST_F(Activity, IsWeighedByTheWaitThatASampleStandsFor) {
  add(2000, 30, 1, 11);
  add(2100, 30, 1, 12);
  add(2200, 20, 2, 11);
  add(2300, 20, 3, 11);
  const WorkerActivity activity = worker_activity(run, process, 0);
  EXPECT_EQ(activity.stack_samples, 4u);
  EXPECT_DOUBLE_EQ(activity.busy_share, 1);
  ASSERT_EQ(activity.functions.size(), 2u);
  EXPECT_EQ(activity.functions[0].frame.location(), "/w/data.py:41");  // the line of most samples, not PIL's
  EXPECT_EQ(activity.functions[0].samples, 3u);
  EXPECT_DOUBLE_EQ(activity.functions[0].share, 0.8);
  EXPECT_EQ(activity.functions[1].frame.function, "Set.read");
}

TEST_F(Activity, LeavesOutWorkersThatWaitForAnIndexOrStart) {
  add(500, 10, 3, 11);   // before its loop began
  add(2000, 40, 4, 11);  // idle
  add(2000, 20, 5, 11);  // hands a batch over
  add(2000, 20, 3, 12);
  add(2000, 10, 6, 12);  // where the loop's begin is not known: a stack without it is the start
  const WorkerActivity activity = worker_activity(run, process, 0);
  EXPECT_EQ(activity.stack_samples, 2u);
  EXPECT_DOUBLE_EQ(activity.busy_share, 0.5);
  EXPECT_DOUBLE_EQ(activity.starting_share, 0.2);
  EXPECT_EQ(activity.functions.size(), 2u);
}

TEST_F(Activity, IsOfOneLoadersWorkersOnly) {
  add(2000, 10, 3, 13);
  add(2000, 10, 3, 77);
  EXPECT_EQ(worker_activity(run, process, 0).stack_samples, 0u);
  EXPECT_EQ(worker_activity(run, process, 1).stack_samples, 1u);
}

TEST_F(Activity, SurvivesTextsThatAreMissingOrSenseless) {
  run.texts[7] = "";
  run.texts[8] = "\n\n \n:";
  add(2000, 10, 7, 11);
  add(2000, -5, 8, 11);
  add(2000, 10, 999, 11);
  EXPECT_EQ(worker_activity(run, process, 0).stack_samples, 0u);
}

}  // namespace
}  // namespace gpuwatch::model
