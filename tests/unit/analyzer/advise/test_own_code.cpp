// SPDX-License-Identifier: Apache-2.0
// Jobs that feed themselves, by code of the script or by a loader that was not seen, and threads of the
// script next to training.
#include <gtest/gtest.h>

#include <functional>

#include "analyzer/advise/input_seen.h"
#include "analyzer/model/pipe_reader.h"
#include "tests/unit/analyzer/advise/own_loop.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using model::Ns;
using trace::OpClass;

// --- input that the script makes itself

const char* const kQueueStack =
    "/usr/lib/python3.11/threading.py:327 Condition.wait\n/usr/lib/python3.11/queue.py:171 Queue.get\n"
    "/home/me/train.py:17 <module>";

TEST(InputOwnCode, WaitingInAQueueHasAFinding) {
  OwnLoop training(std::vector<double>(100, 20));
  test::set_shares(training.job, {{Category::InputTransform, 0.8}});
  for (size_t i = 0; i < 100; ++i) training.call(i, OpClass::Wait, 1, 16, kQueueStack);
  attribute::RankAttribution& rank = training.job.rank();
  rank.slices.clear();
  for (uint32_t i = 0; i < 100; ++i) {
    const model::HostCall& wait = training.job.process().threads[0].calls[i];
    rank.slices.push_back({wait.begin, wait.end, Category::InputTransform, 0, i});
  }
  const Diagnosis diagnosis = training.diagnose();
  EXPECT_EQ(diagnosis.verdict.id, "input-bound");
  const Finding* finding = find(diagnosis, "input-own-code");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->fix.location, "/home/me/train.py:17");
  EXPECT_NEAR(*finding->ceiling_speedup, 5, 0.01);
  EXPECT_NE(finding->title.find("own threads"), std::string::npos);
}

TEST(InputOwnCode, SaysWhoIsWaitedFor) {
  const auto summary = [](OpClass op_class, Category category, bool is_python) {
    OwnLoop training(std::vector<double>(100, 20));
    test::set_shares(training.job, {{category, 0.8}});
    attribute::RankAttribution& rank = training.job.rank();
    rank.slices.clear();
    for (uint32_t i = 0; i < 100; ++i) {
      training.call(i, op_class, 1, 16, "/home/me/train.py:17 <module>");
      const Ns begin = training.step(i).begin + kMs;
      rank.slices.push_back({begin, begin + 16 * kMs, category, 0, i});
    }
    training.job.process().facts = {{"jax", "0.5"}};
    if (is_python) training.job.process().facts["python"] = "3.12.1";
    const Diagnosis diagnosis = training.diagnose();
    const Finding* finding = find(diagnosis, "input-own-code");
    return finding ? finding->fix.summary : "";
  };
  EXPECT_NE(summary(OpClass::Wait, Category::InputTransform, true).find("share the GIL"), std::string::npos);
  EXPECT_NE(summary(OpClass::Wait, Category::InputTransform, false).find("more threads"), std::string::npos);
  EXPECT_NE(summary(OpClass::Wait, Category::InputWait, true).find("more threads"), std::string::npos);
  EXPECT_NE(summary(OpClass::Read, Category::InputUnknown, true).find("more processes"), std::string::npos);
  EXPECT_NE(summary(OpClass::Receive, Category::InputIo, true).find("several batches ahead"),
            std::string::npos);
  EXPECT_NE(summary(OpClass::Read, Category::InputIo, true).find("Read ahead"), std::string::npos);
}

// 100 steps of 20 ms, of which training waits 16 for what the thread `maker` makes. `add(maker, begin)` adds
// its calls of a step, whose wait begins then.
OwnLoop with_maker(Category category, const std::function<void(model::Thread&, Ns)>& add) {
  OwnLoop training(std::vector<double>(100, 20));
  test::set_shares(training.job, {{category, 0.8}});
  model::Thread maker;
  attribute::RankAttribution& rank = training.job.rank();
  rank.slices.clear();
  for (uint32_t i = 0; i < 100; ++i) {
    training.call(i, OpClass::Wait, 1, 16, kQueueStack);
    const Ns begin = training.step(i).begin + kMs;
    rank.slices.push_back({begin, begin + 16 * kMs, category, 0, i});
    add(maker, begin);
  }
  training.job.process().threads.push_back(maker);
  return training;
}

// multiprocessing.Pool: the training thread waits on a condition of the thread that reads the pool's pipe.
TEST(InputOwnCode, AThreadThatReadsAPipePassesOnWhatProcessesMake) {
  const Diagnosis diagnosis =
      with_maker(Category::InputUnknown, [](model::Thread& reader, Ns begin) {
        const auto detail = uint32_t(reader.io_details.size());
        reader.io_details.push_back(trace::IoDetail(1000, 5, 0, model::kPipeFilesystem));
        reader.calls.push_back({begin, begin + 15 * kMs, 0, 0, detail, 0, OpClass::Read, 0});
      }).diagnose();
  const Finding* finding = find(diagnosis, "input-own-code");
  ASSERT_NE(finding, nullptr);
  EXPECT_NE(finding->title.find("the processes"), std::string::npos) << finding->title;
}

// A thread with a queue: asleep (a server, a disk) more of them gain as predicted. Computing in Python they
// share the GIL.
TEST(InputOwnCode, MoreThreadsThatComputeInPythonAreNotPredicted) {
  const auto diagnosis_with = [](Ns sleeping_ms, bool is_python) {
    OwnLoop training = with_maker(Category::InputTransform, [=](model::Thread& maker, Ns begin) {
      const Ns done = begin + 16 * kMs;
      maker.calls.push_back({begin, begin + sleeping_ms * kMs, 0, 0, model::kNone, 0, OpClass::Sleep, 0});
      maker.calls.push_back({done, done + 1000, 0, 0, model::kNone, 0, OpClass::Wait, 0});
    });
    if (!is_python) training.job.process().facts.erase("python");
    return training.diagnose();
  };
  EXPECT_NE(find(diagnosis_with(15, true), "dataloader-workers"), nullptr);
  EXPECT_NE(find(diagnosis_with(1, false), "dataloader-workers"), nullptr);
  const Diagnosis computing = diagnosis_with(1, true);
  EXPECT_EQ(find(computing, "dataloader-workers"), nullptr);
  const Finding* finding = find(computing, "input-own-code");
  ASSERT_NE(finding, nullptr);
  EXPECT_TRUE(finding->fix.summary.starts_with("Make the data in a DataLoader")) << finding->fix.summary;
}

// One that sleeps for 12 ms of each 20, and waits for something else in the rest: the GIL is free for more.
TEST(InputOwnCode, MoreThreadsThatSleepAreBoundedWhereTheyAreNotAlwaysBusy) {
  const auto diagnosis_with = [](Category category) {
    return with_maker(
               category,
               [](model::Thread& maker, Ns begin) {
                 const Ns done = begin + 12 * kMs;
                 maker.calls.push_back({begin, done, 0, 0, model::kNone, 0, OpClass::Sleep, 0});
                 maker.calls.push_back({done, begin + 19 * kMs, 0, 0, model::kNone, 0, OpClass::Wait, 0});
               })
        .diagnose();
  };
  const Diagnosis sleeping = diagnosis_with(Category::InputWait),
                  unknown = diagnosis_with(Category::InputUnknown);
  const Finding* finding = find(sleeping, "dataloader-workers");
  ASSERT_NE(finding, nullptr);
  EXPECT_FALSE(finding->prediction);
  EXPECT_EQ(find(sleeping, "input-own-code"), nullptr);
  EXPECT_EQ(find(unknown, "dataloader-workers"), nullptr);
  EXPECT_NE(find(unknown, "input-own-code"), nullptr);
}

// A thread that opens a recording for each 24th batch: idle for 40% of the time while the queue of two was
// full, and training waited for 28%. A queue of 16 gained what a second thread did.
TEST(InputOwnCode, AThreadThatIsFastEnoughInTheMeanHasTooShortAQueue) {
  const auto diagnosis_with = [](Ns making_ms) {
    OwnLoop training(std::vector<double>(104, 20));
    test::set_shares(training.job, {{Category::InputWait, 0.2}});
    model::Thread maker;
    attribute::RankAttribution& rank = training.job.rank();
    rank.slices.clear();
    for (uint32_t i = 0; i < 104; ++i) {
      const Ns begin = training.step(i).begin + kMs;
      maker.calls.push_back({begin, begin + making_ms * kMs, 0, 0, model::kNone, 0, OpClass::Sleep, 0});
      maker.calls.push_back(
          {begin + making_ms * kMs, begin + 19 * kMs, 0, 0, model::kNone, 0, OpClass::Wait, 0});
      if (i % 8 != 0) continue;
      training.call(i, OpClass::Wait, 1, 16, kQueueStack);
      rank.slices.push_back({begin, begin + 16 * kMs, Category::InputWait, 0, i / 8});
    }
    training.job.process().threads.push_back(maker);
    return training.diagnose();
  };
  const Diagnosis idle = diagnosis_with(8), slow = diagnosis_with(17);
  const Finding* finding = find(idle, "dataloader-prefetch");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->fix.location, "/home/me/train.py:17");
  EXPECT_NEAR(*finding->ceiling_speedup, 1 / 0.8, 0.02);
  EXPECT_EQ(find(idle, "input-own-code"), nullptr);
  EXPECT_EQ(find(slow, "dataloader-prefetch"), nullptr);
}

// Samples of the training thread, of which 4 in 10 saw another thread execute Python.
void see_another_thread(test::Job& job, const std::string& line = "/home/me/train.py:7 make") {
  constexpr uint32_t kTrain = 91, kMake = 92;
  job.run.texts[kTrain] = "/v/site-packages/torch/_tensor.py:5 backward\n/home/me/train.py:80 main";
  job.run.texts[kMake] = line + "\n/usr/lib/python3.11/threading.py:982 Thread._bootstrap";
  model::Process& process = job.process();
  const model::TimeSpan all{job.rank().steps.front().step.begin, job.rank().steps.back().step.end};
  const Ns each = all.length() / 100;
  for (Ns i = 0; i < 100; ++i) {
    process.threads[0].worker_stacks.push_back({all.begin + i * each, each, kTrain, process.pid});
    if (i % 10 < 4)
      process.threads[0].worker_stacks.push_back(
          {all.begin + i * each, each, kMake, model::kOfAnotherThread});
  }
}

// Its data come in time: nothing waits in the queue, and training has half of the GIL and of a core.
TEST(InputOwnCode, AThreadThatComputesNextToTraining) {
  const auto diagnosis_with = [](double gil, double core, bool is_seen) {
    OwnLoop training(std::vector<double>(100, 20));
    test::set_shares(training.job, {{Category::Gil, gil}, {Category::Sched, core}, {Category::Compute, 0.6}});
    if (is_seen) see_another_thread(training.job);
    return training.diagnose();
  };
  const Diagnosis diagnosis = diagnosis_with(0.1, 0.3, true);
  const Finding* finding = find(diagnosis, "input-own-code");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->fix.location, "/home/me/train.py:7");
  EXPECT_NE(finding->title.find("10% for the GIL and 30% for a CPU core"), std::string::npos)
      << finding->title;
  EXPECT_NEAR(finding->lost_share, 0.4, 1e-9);
  EXPECT_GE(finding->ceiling_speedup.value_or(0), 1 / 0.6);
  EXPECT_EQ(find(diagnosis_with(0.1, 0.3, false), "input-own-code"), nullptr);
  EXPECT_EQ(find(diagnosis_with(0.01, 0.01, true), "input-own-code"), nullptr);
  // Waiting for a core has other causes, too: no more than the thread was seen at work.
  EXPECT_NEAR(find(diagnosis_with(0, 0.8, true), "input-own-code")->lost_share, 0.4, 1e-9);
}

TEST(HostWork, IsOtherThreadsWhereALoaderBringsTheData) {
  test::Job job = test::make_loader_job({.workers = 1});
  test::set_shares(job, {{Category::Gil, 0.2}, {Category::Compute, 0.8}});
  EXPECT_EQ(find(diagnose(job.run, job.ranks), "host-work"), nullptr);
  see_another_thread(job);
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  ASSERT_NE(find(diagnosis, "host-work"), nullptr);
  EXPECT_NE(find(diagnosis, "host-work")->title.find("Another thread"), std::string::npos);
  EXPECT_EQ(find(diagnosis, "input-own-code"), nullptr);
}

// TensorBoard's writes what the script gave it: its function is not the user's to change.
TEST(HostWork, OfAPackagesThreadIsToCallThePackageLess) {
  test::Job job = test::make_loader_job({.workers = 1});
  test::set_shares(job, {{Category::Gil, 0.2}, {Category::Compute, 0.8}});
  see_another_thread(job, "/v/site-packages/tensorboard/pywrap.py:141 crc_update");
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  const Finding* finding = find(diagnosis, "host-work");
  ASSERT_NE(finding, nullptr);
  EXPECT_TRUE(finding->title.starts_with("A thread of tensorboard computes")) << finding->title;
  EXPECT_TRUE(finding->fix.summary.starts_with("Call tensorboard less often")) << finding->fix.summary;
}

TEST(InputOwnCode, ALoadersWaitsAreTheLoaders) {
  test::Job job = test::make_loader_job({.workers = 1});
  test::set_shares(job, {{Category::InputTransform, 0.8}});
  EXPECT_EQ(find(diagnose(job.run, job.ranks), "input-own-code"), nullptr);
}

// --- what was not seen

TEST(UnseenInput, IsNoLimitOfNothing) {
  OwnLoop training(std::vector<double>(100, 20));
  const Diagnosis diagnosis = training.diagnose();
  EXPECT_EQ(diagnosis.verdict.id, "cpu-job");
  EXPECT_EQ(diagnosis.verdict.sentence.find("data loading can"), std::string::npos)
      << diagnosis.verdict.sentence;
  EXPECT_NE(diagnosis.verdict.sentence.find("is not known"), std::string::npos) << diagnosis.verdict.sentence;
  EXPECT_EQ(find(diagnosis, "healthy"), nullptr);
  EXPECT_TRUE(says(diagnosis.limits, "No DataLoader seen"));
}

TEST(UnseenInput, AnEvaluationsLoaderIsNotTheTrainings) {
  OwnLoop training(std::vector<double>(100, 20));
  training.job.process().loaders.resize(1);
  EXPECT_NE(training.diagnose().verdict.sentence.find("is not known"), std::string::npos);
}

TEST(UnseenInput, ALoaderThatWasSeenIsJudged) {
  test::Job job = test::make_loader_job({.workers = 4});
  test::set_shares(job, {{Category::InputTransform, 0.02}});
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  EXPECT_EQ(diagnosis.verdict.id, "cpu-job");
  EXPECT_NE(diagnosis.verdict.sentence.find("faster data loading gains up to 1.02x"), std::string::npos)
      << diagnosis.verdict.sentence;
}

TEST(UnseenInput, IsSaidOfOtherFrameworksToo) {
  OwnLoop training(std::vector<double>(100, 20));
  training.job.process().facts = {{"python", "3.12.1"}, {"jax", "0.5"}};
  EXPECT_TRUE(says(training.diagnose().limits, "Input was not seen"));
}

}  // namespace
}  // namespace gpuwatch::advise
