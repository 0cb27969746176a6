// SPDX-License-Identifier: Apache-2.0
// Data that a loop on the CPU makes itself: what is said of it, and what it is told apart from.
#include <gtest/gtest.h>

#include "analyzer/advise/diagnose.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using model::Ns;
using trace::OpClass;

constexpr Ns kMs = 1'000'000, kSecond = 1'000 * kMs;
constexpr uint32_t kMakes = 91, kTrains = 92, kPoint = 93;

// 100 steps of 10 ms on the CPU, of which `share` is seen in a generator.
struct Loop {
  test::Job job;
  std::vector<model::Loader> loaders;
  std::vector<model::LoaderEpoch> epochs;
  explicit Loop(int percent)
      : job(test::make_loader_job({.workers = 0,
                                   .batches = 100,
                                   .service_ms = [](size_t) { return 1.0; },
                                   .think_ms = [](size_t) { return 9.0; }})) {
    epochs.swap(job.process().epochs);
    loaders.swap(job.process().loaders);
    job.run.operations = {{"call", OpClass::Other}};
    job.run.texts[kMakes] =
        "/home/a/train.py:12 decode\n/home/a/train.py:20 batches*\n/home/a/train.py:41 main";
    job.run.texts[kTrains] = "/v/site-packages/torch/_tensor.py:5 backward\n/home/a/train.py:80 main";
    job.run.texts[kPoint] = "/data";
    for (int i = 0; i < 1000; ++i)
      job.process().threads[0].worker_stacks.push_back({begin() + i * kSecond / 1000, kSecond / 1000,
                                                        i % 100 < percent ? kMakes : kTrains,
                                                        job.process().pid});
    test::set_shares(job, {{Category::Compute, 1}});
  }
  Ns begin() { return job.rank().steps.front().step.begin; }
  // In each step, one call of 5 ms.
  void read(OpClass op_class, bool is_remote) {
    model::Process& process = job.process();
    process.mounts = {{"/data", is_remote ? "nfs" : "ext4", "server:/data", 5, is_remote}};
    model::Thread& thread = process.threads[0];
    thread.calls.clear();
    for (const auto& step : job.rank().steps) {
      const auto detail = uint32_t(thread.io_details.size());
      thread.io_details.push_back(trace::IoDetail(1000, 5, kPoint, 0));
      thread.calls.push_back(
          {step.step.begin + kMs, step.step.begin + 6 * kMs, 0, 0, detail, 0, op_class, 0});
    }
  }
  Diagnosis diagnose() { return advise::diagnose(job.run, job.ranks); }
};

TEST(OwnData, ComputedByTheLoopIsTransforms) {
  Loop loop(80);
  const Diagnosis diagnosis = loop.diagnose();
  const Finding* finding = first_complaint(diagnosis.findings);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->id, "input-decode");
  EXPECT_NE(finding->title.find("batches()"), std::string::npos) << finding->title;
  EXPECT_TRUE(finding->fix.summary.starts_with("Compute what batches() makes once")) << finding->fix.summary;
  EXPECT_EQ(finding->fix.location, "/home/a/train.py:12");
  EXPECT_GE(*finding->ceiling_speedup, 5);
  EXPECT_LE(*finding->ceiling_speedup, 5.8);  // the interval's high end, 82%
  EXPECT_EQ(diagnosis.verdict.id, "input-bound");
}

TEST(OwnData, ReadOverANetworkIsRemoteStorage) {
  Loop loop(80);
  loop.read(OpClass::Read, true);
  const Diagnosis diagnosis = loop.diagnose();
  const Finding* finding = first_complaint(diagnosis.findings);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->id, "input-remote-storage");
  EXPECT_NE(finding->fix.summary.find("/data"), std::string::npos) << finding->fix.summary;
}

TEST(OwnData, OpenedFileByFileIsSmallFiles) {
  Loop loop(80);
  loop.read(OpClass::Open, false);
  EXPECT_NE(find(loop.diagnose().findings, "input-small-files"), nullptr);
  EXPECT_EQ(find(loop.diagnose().findings, "input-remote-storage"), nullptr);
}

TEST(OwnData, AFewPercentAreNoFinding) {
  Loop loop(4);
  EXPECT_EQ(find(loop.diagnose().findings, "input-decode"), nullptr);
}

TEST(OwnData, IsNotAskedOfWhereALoaderFeedsTheSteps) {
  Loop loop(80);
  loop.job.process().loaders = loop.loaders;
  loop.job.process().epochs = loop.epochs;
  EXPECT_EQ(find(loop.diagnose().findings, "input-decode"), nullptr);
}

// Eight batches of it in each of two steps.
TEST(OwnData, IsAskedOfWhereALoaderFeedsAnEvaluation) {
  Loop loop(80);
  model::LoaderEpoch evaluation = loop.epochs.front();
  evaluation.batches.resize(16);
  for (size_t i = 0; i < 16; ++i) {
    const Ns at = loop.job.rank().steps[i < 8 ? 40 : 90].step.begin + Ns(i % 8) * kMs;
    evaluation.batches[i].next = evaluation.batches[i].fetch = {at, at + kMs / 2};
  }
  loop.job.process().loaders = loop.loaders;
  loop.job.process().epochs = {evaluation};
  const Diagnosis diagnosis = loop.diagnose();
  const Finding* finding = first_complaint(diagnosis.findings);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->id, "input-decode");
  EXPECT_NE(finding->title.find("batches()"), std::string::npos) << finding->title;
}

// JAX: no step is seen. The training thread waits in a queue's get() for one that downloads: an event loop,
// whose poll ends with each answer.
Diagnosis diagnose_download(size_t answers) {
  Loop loop(80);
  const Ns begin = loop.begin();
  model::Process& process = loop.job.process();
  loop.job.run.texts[kMakes] =
      "/usr/lib/python3.11/threading.py:327 Condition.wait\n/usr/lib/python3.11/queue.py:171 Queue.get\n"
      "/home/a/train.py:95 main";
  loop.job.rank().steps.clear();
  process.start = begin;
  process.last_seen = begin + kSecond;
  model::Thread& thread = process.threads.emplace_back();
  for (size_t i = 0; i < 100; ++i) {
    const Ns at = begin + Ns(i) * 10 * kMs;
    thread.calls.push_back({at, at + 8 * kMs, 0, 0, model::kNone, 0, OpClass::Poll, 0});
    if (i >= 100 - answers)
      thread.calls.push_back({at + 8 * kMs, at + 9 * kMs, 0, 0, model::kNone, 0, OpClass::Receive, 0});
  }
  return loop.diagnose();
}

TEST(OwnData, AwaitedFromAThreadThatDownloadsIsRemoteStorage) {
  const Diagnosis diagnosis = diagnose_download(50);
  const Finding* finding = first_complaint(diagnosis.findings);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->id, "input-remote-storage");
  EXPECT_EQ(finding->fix.location, "/home/a/train.py:95");
  EXPECT_EQ(diagnosis.verdict.id, "input-bound");
}

TEST(OwnData, AnEventLoopThatNothingAnswersIsNoDownload) {
  EXPECT_EQ(first_complaint(diagnose_download(0).findings), nullptr);
}

}  // namespace
}  // namespace gpuwatch::advise
