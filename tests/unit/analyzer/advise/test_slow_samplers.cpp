// SPDX-License-Identifier: Apache-2.0
// Samplers that take long to draw the indices of a batch, or of an epoch in each step.
#include <gtest/gtest.h>

#include "tests/unit/analyzer/advise/cpu_training.h"
#include "tests/unit/analyzer/advise/epochs.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;

// 20 of 50 ms, with workers as without them.
TEST(HostWork, OfASamplerIsNamedAndPredicted) {
  test::LoaderJob loader;
  loader.draw_ms = 20;
  loader.think_ms = [](size_t) { return 30.0; };
  loader.workers = 4;
  test::Job with_workers = test::make_loader_job(loader);
  with_workers.process().loaders[0].sampler = "BalancedSampler";
  const Diagnosis diagnosis = diagnose(with_workers.run, with_workers.ranks);
  const Finding* finding = find(diagnosis, "host-work");
  ASSERT_NE(finding, nullptr);
  ASSERT_TRUE(finding->prediction);
  EXPECT_NEAR(finding->prediction->now, 50, 1) << "the last batches draw no further indices";
  EXPECT_NEAR(finding->prediction->value.expected, 30, 1);
  EXPECT_NE(finding->fix.summary.find("BalancedSampler"), std::string::npos) << finding->fix.summary;
  loader.workers = 0;
  const test::Job without = test::make_loader_job(loader);
  EXPECT_NE(find(diagnose(without.run, without.ranks), "host-work"), nullptr);
  loader.draw_ms = 1.5;
  const test::Job quick = test::make_loader_job(loader);
  EXPECT_EQ(find(diagnose(quick.run, quick.ranks), "host-work"), nullptr);
}

// 50 ms before the first of ten batches of 10 ms, beside 10 ms of training: 5 of 25 ms.
test::Job drawing_for_epochs() {
  test::Job job = test::make_loader_job(
      {.workers = 0,
       .service_ms = [](size_t i) { return i % 10 == 0 ? 60.0 : 10.0; },
       .think_ms = [](size_t) { return 10.0; },
       .describe =
           [](model::Batch& batch) { batch.fetch.begin += batch.index % 10 == 0 ? 50'000'000 : 20'000; }});
  test::split_into_epochs(job.process(), 10);
  return job;
}

TEST(HostWork, OfASamplerThatDrawsAtTheBeginOfAnEpochIsNamedAndBounded) {
  const test::Job job = drawing_for_epochs();
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  const Finding* finding = find(diagnosis, "host-work");
  ASSERT_NE(finding, nullptr);
  EXPECT_NE(finding->title.find("50 ms before its first batch"), std::string::npos) << finding->title;
  EXPECT_NE(finding->fix.summary.find("longer epochs"), std::string::npos) << finding->fix.summary;
  EXPECT_LT(std::abs(diagnosis.replay->error()), 0.03);
  EXPECT_FALSE(finding->prediction) << "what the draw leaves behind goes, too";
  EXPECT_GE(finding->ceiling_speedup.value_or(0), 25.0 / 20);
}

// `if i == 9: break` at the top of the loop: the tenth batch of each epoch is made, not used, and in the step
// that the next epoch begins in.
TEST(HostWork, OfASamplerBeforeEachBreakIsCountedOnce) {
  test::Job job = drawing_for_epochs();
  auto& steps = job.ranks.front().steps;
  const size_t recorded = steps.size();
  for (const model::LoaderEpoch& epoch : job.process().epochs) {
    const model::Ns left = epoch.batches.back().next.begin;
    const auto step = std::ranges::find_if(steps, [&](const auto& each) { return left < each.step.end; });
    if (step == steps.end() || step + 1 == steps.end() || left < step->step.begin) continue;
    (step + 1)->step.begin = step->step.begin;
    steps.erase(step);
  }
  ASSERT_LT(steps.size(), recorded - 10);
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  EXPECT_LT(std::abs(diagnosis.replay->error()), 0.05);
}

// next(iter(loader)) in each step.
TEST(HostWork, OfASamplerThatIsAskedForAnEpochInEachStepIsToKeepTheIterator) {
  test::Job job = test::make_loader_job({.workers = 0, .draw_ms = 20});
  test::split_into_epochs(job.process(), 1);
  job.process().loaders[0].batches = 1000;
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  const Finding* finding = find(diagnosis, "host-work");
  ASSERT_NE(finding, nullptr);
  EXPECT_TRUE(finding->fix.summary.starts_with("Call iter() on the DataLoader once")) << finding->fix.summary;
}

// The same with workers, which start for each batch.
test::Job starting_for_each_batch(test::LoaderJob wanted) {
  wanted.workers = 2;
  wanted.think_ms = [](size_t) { return 20.0; };
  test::Job job = test::make_loader_job(wanted);
  test::split_into_epochs(job.process(), 1);
  for (model::LoaderEpoch& epoch : job.process().epochs) {
    epoch.start.begin -= 15'000'000;  // of 20 ms between two batches
    epoch.batches.front().sent = epoch.start.begin + 10'000'000;
  }
  test::set_shares(job, {{Category::InputStartup, 0.6}});
  return job;
}

// Cheaper samples gain nothing there, though training waits for a batch in each step.
TEST(InputDecode, IsNoneWhereWorkersStart) {
  const test::Job job =
      starting_for_each_batch({.cpu_count = 2, .cpu_share = 1, .service_ms = [](size_t) { return 0.5; }});
  EXPECT_EQ(find(diagnose(job.run, job.ranks), "input-decode"), nullptr);
}

// Living ones would still begin an epoch in each step.
TEST(DataloaderPersistentWorkers, StartedForASingleBatchAreToKeepTheIterator) {
  test::Job job = starting_for_each_batch({});
  const auto keeps_iterator = [&] {
    const Diagnosis diagnosis = diagnose(job.run, job.ranks);
    const Finding* finding = find(diagnosis, "dataloader-persistent-workers");
    return finding && finding->fix.summary.starts_with("Call iter() on the DataLoader once");
  };
  job.process().loaders[0].batches = 100;
  EXPECT_TRUE(keeps_iterator());
  // Of a dataset of the script the length is not known: its workers were asked for more than was taken.
  job.process().loaders[0].batches = -1;
  EXPECT_FALSE(keeps_iterator());
  for (model::LoaderEpoch& epoch : job.process().epochs) {
    model::Batch& ahead = epoch.batches.emplace_back(epoch.batches.front());
    ahead.index += 1;
    ahead.next = {};
    ahead.received = 0;
  }
  EXPECT_TRUE(keeps_iterator());
}

}  // namespace
}  // namespace gpuwatch::advise
