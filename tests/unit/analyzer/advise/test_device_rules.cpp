// SPDX-License-Identifier: Apache-2.0
// Each device rule: the case that has the cause, and the neighbour that has not.
#include <gtest/gtest.h>

#include "tests/unit/analyzer/advise/device_diagnosis.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using test::Action;
using trace::OpClass;
using trace::RecordKind;

void expect_prediction(const Finding* finding, const std::vector<Action>& fixed) {
  ASSERT_NE(finding, nullptr);
  ASSERT_TRUE(finding->prediction);
  double really = test::device_step_us(fixed, kSteps) / 1e3;
  EXPECT_LE(finding->prediction->value.low, really * 1.001);
  EXPECT_GE(finding->prediction->value.high, really * 0.999);
}

TEST(SyncPerStep, PredictsTheStepWithoutIt) {
  std::vector<Action> step = {{.gap_us = 300, .device_us = 500}, kSync};
  Diagnosis diagnosis = diagnose_device(step, {{Category::Sync, 0.37}});
  step.pop_back();
  EXPECT_EQ(diagnosis.findings.front().id, "sync-per-step");
  EXPECT_EQ(diagnosis.verdict.id, "host-bound");
  expect_prediction(find(diagnosis, "sync-per-step"), step);
}

// CUPTI makes each of these launches 1.3 us longer, which the job without gpuwatch does not pay.
TEST(SyncPerStep, MayGainWhatRecordingCost) {
  std::vector<Action> step(50, Action{.gap_us = 8, .cost_us = 4, .device_us = 3});
  step.push_back({.device_us = 300});
  step.push_back(kSync);
  const Diagnosis diagnosis = diagnose_device(step, {{Category::Sync, 0.37}});
  const Finding* finding = find(diagnosis, "sync-per-step");
  ASSERT_TRUE(finding && finding->prediction);
  const double recorded_us = test::device_step_us(step, kSteps), recording_us = 50 * 1.3;
  EXPECT_LT(finding->prediction->value.low,
            finding->prediction->value.expected * (1 - recording_us / recorded_us) * 0.98);
}

TEST(SyncPerStep, NamesPyTorchsCallOfAnExplicitOne) {
  test::Job job = test::make_device_job({{.gap_us = 300, .device_us = 500}, kSync}, 100);
  test::set_shares(job, {{Category::Sync, 0.37}});
  job.process().facts["torch"] = "2.13.0";
  const auto summary = [&] { return find(diagnose(job.run, job.ranks), "sync-per-step")->fix.summary; };
  EXPECT_NE(summary().find(".item()"), std::string::npos) << summary();
  job.run.operations[1].name = "cudaDeviceSynchronize";
  EXPECT_NE(summary().find("torch.cuda.synchronize()"), std::string::npos) << summary();
}

// Each layer timed by its own waits (molecule-layer-times of tests/abroad): the host's part of the step is
// theirs.
TEST(SyncPerStep, ComesBeforeTheLaunchesThatItHoldsBack) {
  const auto first_of = [](size_t launches_a_wait) {
    std::vector<Action> step;
    for (size_t i = 1; i <= 200; ++i) {
      step.push_back({.gap_us = 100, .device_us = 40});
      if (i % launches_a_wait == 0) step.push_back(kSync);
    }
    const Diagnosis diagnosis =
        diagnose_device(step, {{Category::LaunchDispatch, 0.5}, {Category::Sync, 0.1}});
    EXPECT_NE(find(diagnosis, "launch-bound"), nullptr);
    return diagnosis.findings.front().id;
  };
  EXPECT_EQ(first_of(2), "sync-per-step");
  EXPECT_EQ(first_of(40), "launch-bound");
}

TEST(SyncPerStep, TakesACopyOfFewBytesForOne) {
  Action item{
      .op_class = OpClass::Copy, .device_us = 2, .waits = true, .kind = RecordKind::CopyD2H, .bytes = 4};
  EXPECT_NE(find(diagnose_device({{.gap_us = 300, .device_us = 500}, item}, {{Category::Sync, 0.3}}),
                 "sync-per-step"),
            nullptr);
}

// Activations that are fetched in each step: the copies took 39% of it, and went with the fix.
TEST(SyncPerStep, DataThatStayOnTheGpuAreNotCopied) {
  const Action fetch{.op_class = OpClass::Copy,
                     .device_us = 1600,
                     .waits = true,
                     .kind = RecordKind::CopyD2H,
                     .pageable = true,
                     .bytes = 4 << 20};
  const Diagnosis diagnosis = diagnose_device({{.gap_us = 300, .device_us = 500}, fetch},
                                              {{Category::CopyD2H, 0.66}, {Category::Sync, 0.02}});
  const Finding* finding = find(diagnosis, "sync-per-step");
  ASSERT_NE(finding, nullptr);
  EXPECT_GE(finding->lost_share, 0.75);
}

TEST(SyncPerStep, LeavesTheSynchronisationOfACopyToTheCopy) {
  Action copy{.op_class = OpClass::Copy,
              .device_us = 300,
              .kind = RecordKind::CopyH2D,
              .pageable = true,
              .bytes = 1 << 20};
  Diagnosis diagnosis =
      diagnose_device({{.gap_us = 20, .device_us = 500}, copy, kSync},
                      {{Category::CopyStaging, 0.1}, {Category::CopyH2D, 0.2}, {Category::Sync, 0.02}});
  EXPECT_EQ(find(diagnosis, "sync-per-step"), nullptr);
}

const Action kPageableCopy{.op_class = OpClass::Copy,
                           .device_us = 300,
                           .waits = true,
                           .kind = RecordKind::CopyH2D,
                           .pageable = true,
                           .bytes = 3'000'000};

TEST(PinMemory, PredictsWithTheBandwidthOfARecordedPinnedCopy) {
  Action pinned = kPageableCopy;
  pinned.pageable = pinned.waits = false;
  pinned.device_us = 100;
  std::vector<Action> step = {{.gap_us = 200, .device_us = 500}, pinned, kPageableCopy};
  Diagnosis diagnosis = diagnose_device(step, {{Category::CopyStaging, 0.2}, {Category::CopyH2D, 0.3}});
  const Finding* finding = find(diagnosis, "pin-memory");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(setting_name(finding->fix.change), "pin_memory");
  expect_prediction(finding, {step[0], pinned, pinned});
}

TEST(Ranking, PredictsTheSecondOnTopOfTheFirst) {
  Action pinned = kPageableCopy;
  pinned.pageable = pinned.waits = false;
  const Diagnosis diagnosis = diagnose_device(
      {{.gap_us = 300, .device_us = 500}, kSync, pinned, {.gap_us = 50, .device_us = 300}, kPageableCopy},
      {{Category::Sync, 0.3}, {Category::CopyStaging, 0.2}, {Category::CopyH2D, 0.1}});
  ASSERT_GE(diagnosis.findings.size(), 2u);
  const Finding &first = diagnosis.findings[0], &second = diagnosis.findings[1];
  ASSERT_TRUE(first.prediction && second.prediction) << first.id << ' ' << second.id;
  EXPECT_DOUBLE_EQ(second.prediction->now, first.prediction->value.expected);
}

TEST(PinMemory, GivesACeilingWhereNoPinnedCopyWasMeasured) {
  Diagnosis diagnosis = diagnose_device({{.gap_us = 200, .device_us = 500}, kPageableCopy},
                                        {{Category::CopyStaging, 0.2}, {Category::CopyH2D, 0.3}});
  const Finding* finding = find(diagnosis, "pin-memory");
  ASSERT_NE(finding, nullptr);
  EXPECT_FALSE(finding->prediction);
  EXPECT_TRUE(finding->ceiling_speedup);
  EXPECT_EQ(find(diagnosis, "blocking-copy"), nullptr);
}

TEST(BlockingCopy, NamesTheExposedCopyFromPinnedMemory) {
  Action copy{.op_class = OpClass::Copy, .device_us = 300, .kind = RecordKind::CopyH2D, .bytes = 1 << 20};
  Diagnosis diagnosis = diagnose_device({{.gap_us = 5, .device_us = 500}, copy}, {{Category::CopyH2D, 0.37}});
  EXPECT_EQ(find(diagnosis, "pin-memory"), nullptr);
  copy.stream = 1;
  expect_prediction(find(diagnosis, "blocking-copy"), {{.gap_us = 5, .device_us = 500}, copy});
}

// They took 14% longer beside kernels than alone on an H200, where nothing but the copies limited the step.
TEST(BlockingCopy, AllowsForCopiesThatTakeLongerBesideKernels) {
  const Action copy{
      .op_class = OpClass::Copy, .device_us = 1820, .kind = RecordKind::CopyH2D, .bytes = 101 << 20};
  const Diagnosis diagnosis =
      diagnose_device({{.gap_us = 5, .device_us = 950}, copy}, {{Category::CopyH2D, 0.64}});
  const Finding* finding = find(diagnosis, "blocking-copy");
  ASSERT_TRUE(finding && finding->prediction);
  EXPECT_NEAR(finding->prediction->value.expected, 1.82, 0.02);
  EXPECT_GE(finding->prediction->value.high, 1.82 * 1.14);
  EXPECT_DOUBLE_EQ(finding->prediction->speedup.low,
                   finding->prediction->now / finding->prediction->value.high);
}

// One buffer, which the host may fill again when the GPU is done with it (ratings-one-buffer of tests/abroad:
// 8.45 ms, 4.44 with two). The next batch's copy is ahead of that wait.
TEST(BlockingCopy, OfTheNextBatchDoesNotWaitForThisOne) {
  Action copy{.op_class = OpClass::Copy, .device_us = 300, .kind = RecordKind::CopyH2D, .bytes = 1 << 20};
  const Action train{.gap_us = 5, .device_us = 500};
  const Diagnosis diagnosis =
      diagnose_device({copy, train, kSync}, {{Category::CopyH2D, 0.37}, {Category::Sync, 0.05}});
  copy.stream = 1;
  expect_prediction(find(diagnosis, "blocking-copy"), {train, copy, kSync});
}

TEST(BlockingCopy, NamesTheExposedCopyToPinnedMemory) {
  Action fetch{.op_class = OpClass::Copy, .device_us = 300, .kind = RecordKind::CopyD2H, .bytes = 1 << 20};
  const Action forward{.gap_us = 5, .device_us = 500}, backward{.gap_us = 5, .device_us = 500};
  const Diagnosis diagnosis = diagnose_device({forward, fetch, backward}, {{Category::CopyD2H, 0.23}});
  const Finding* finding = find(diagnosis, "blocking-copy");
  ASSERT_NE(finding, nullptr);
  EXPECT_NE(finding->title.find("D2H"), std::string::npos);
  fetch.device_us = 0;  // hidden behind the kernel that follows
  expect_prediction(finding, {forward, fetch, backward});
}

const Action kBatch{.op_class = OpClass::Copy,
                    .device_us = 100,
                    .kind = RecordKind::CopyH2D,
                    .bytes = 1 << 20,
                    .caller = 0x1000,
                    .sources = {10, 11, 12}};
const Action kTable{.op_class = OpClass::Copy,
                    .device_us = 200,
                    .kind = RecordKind::CopyH2D,
                    .bytes = 2 << 20,
                    .caller = 0x2000,
                    .sources = {20}};

TEST(RepeatedCopy, PredictsTheStepWithoutIt) {
  Diagnosis diagnosis =
      diagnose_device({{.gap_us = 5, .device_us = 500}, kBatch, kTable}, {{Category::CopyH2D, 0.37}});
  const Finding* finding = find(diagnosis, "repeated-copy");
  expect_prediction(finding, {{.gap_us = 5, .device_us = 500}, kBatch});
  EXPECT_EQ(finding->severity, Severity::kMinor);
  EXPECT_TRUE(finding->fix.summary.starts_with("Copy the 2.1 MB that each step copies"))
      << finding->fix.summary;
  // Whether it is a constant is not known: the other fix starts from the recorded step.
  ASSERT_NE(find(diagnosis, "blocking-copy"), nullptr);
  EXPECT_DOUBLE_EQ(find(diagnosis, "blocking-copy")->prediction->now, finding->prediction->now);
}

// The host is the slower one: pinned, the table's copy costs as little as none. But batches come from
// elsewhere.
TEST(RepeatedCopy, ComesBeforePinningTheSameCopies) {
  Action table = kTable;
  table.pageable = table.waits = true;
  const Diagnosis diagnosis = diagnose_device({{.gap_us = 800, .device_us = 100}, kBatch, table},
                                              {{Category::CopyStaging, 0.1}, {Category::CopyH2D, 0.1}});
  EXPECT_NE(find(diagnosis, "pin-memory"), nullptr);
  EXPECT_EQ(diagnosis.findings.front().id, "repeated-copy");
}

TEST(RepeatedCopy, IsSilentWhereItCannotTell) {
  const auto diagnose_copies = [](const Action& a, const Action& b) {
    return diagnose_device({{.gap_us = 5, .device_us = 500}, a, b}, {{Category::CopyH2D, 0.37}});
  };
  Action other = kTable;
  other.sources = {20, 21};  // two buffers, by turns
  EXPECT_EQ(find(diagnose_copies(kBatch, other), "repeated-copy"), nullptr);
  other.sources = {};  // not recorded
  EXPECT_EQ(find(diagnose_copies(kBatch, other), "repeated-copy"), nullptr);
  other = kBatch;
  other.sources = {10};  // every copy comes from one address: one of them is the batch
  EXPECT_EQ(find(diagnose_copies(other, kTable), "repeated-copy"), nullptr);
}

TEST(AllocatorChurn, NeedsAllocationsInMostSteps) {
  Action allocate{.op_class = OpClass::Alloc, .cost_us = 300};
  Diagnosis diagnosis = diagnose_device({allocate, {.device_us = 200}, kSync}, {{Category::Alloc, 0.5}});
  EXPECT_NE(find(diagnosis, "allocator-churn"), nullptr);
  EXPECT_EQ(find(diagnose_device({{.device_us = 200}}, {}), "allocator-churn"), nullptr);
}

TEST(LaunchBound, PredictsAGraph) {
  std::vector<Action> step(50, Action{.gap_us = 8, .cost_us = 4, .device_us = 3});
  Diagnosis diagnosis =
      diagnose_device(step, {{Category::LaunchDispatch, 0.5}, {Category::LaunchApi, 0.25}}, false);
  const Finding* finding = find(diagnosis, "launch-bound");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(setting_name(finding->fix.change), "CUDA graph");
  ASSERT_TRUE(finding->prediction);
  EXPECT_GT(finding->prediction->speedup.low, 2);
  // The device is the slower one: kernels at once behind one another, or with a microsecond between them.
  const double at_once_ms = 50 * 0.003, apart_ms = 50 * 0.004;
  EXPECT_LE(finding->prediction->value.low, at_once_ms);
  EXPECT_GE(finding->prediction->value.high, apart_ms);
}

// 12 us a launch: of 199 that follow the first torch.compile keeps 30 and 15 %, at best half of that. Where
// that is all that is left of the step, the range is too wide for a prediction.
TEST(LaunchBound, IsBoundByWhatTheCompilerKeepsAtBest) {
  std::vector<Action> step(200, Action{.gap_us = 8, .cost_us = 4, .device_us = 0.5});
  const Shares shares = {{Category::LaunchDispatch, 0.5}, {Category::LaunchApi, 0.25}};
  const Diagnosis diagnosis = diagnose_device(step, shares);
  const Finding* finding = find(diagnosis, "launch-bound");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(setting_name(finding->fix.change), "torch.compile");
  EXPECT_NE(finding->fix.summary.find("capture the whole step in a CUDA graph"), std::string::npos);
  EXPECT_EQ(finding->fix.summary.find("up to"), std::string::npos) << "next to the compiler's: two bounds";
  EXPECT_FALSE(finding->prediction);
  ASSERT_TRUE(finding->ceiling_speedup && finding->too_wide);
  // Recording takes 1.3 us of each launch, which the job without gpuwatch does not pay.
  const double recorded = 1.3 / 12.05, kept_ms = 0.012 * (30 + 0.15 * 199), first_ms = 0.012,
               now_ms = 200 * 0.012, least_ms = first_ms + 0.5 * kept_ms, device_ms = 0.3;
  EXPECT_NEAR(*finding->ceiling_speedup, now_ms / (least_ms * (1 - recorded) * 0.97), 0.1);
  EXPECT_NEAR(finding->too_wide->value.expected, first_ms + kept_ms, 0.02);
  EXPECT_LE(finding->too_wide->value.low, least_ms);
  EXPECT_GE(finding->too_wide->value.high, first_ms + 1.5 * kept_ms);
  EXPECT_LT(device_ms, least_ms);  // else the device would set the pace
}

// Compiled, they would take the host as long as they do.
TEST(LaunchBound, NamesAGraphForAFewLaunches) {
  std::vector<Action> step(32, Action{.gap_us = 8, .cost_us = 4, .device_us = 1});
  const Diagnosis diagnosis =
      diagnose_device(step, {{Category::LaunchDispatch, 0.5}, {Category::LaunchApi, 0.25}});
  const Finding* finding = find(diagnosis, "launch-bound");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(setting_name(finding->fix.change), "CUDA graph");
}

TEST(LaunchBound, LeavesLongHostWorkAlone) {
  std::vector<Action> step(10, Action{.gap_us = 500, .cost_us = 4, .device_us = 3});
  EXPECT_EQ(find(diagnose_device(step, {{Category::HostCompute, 0.9}}), "launch-bound"), nullptr);
}

TEST(GpuUnused, SaysWhy) {
  test::Job job = test::make_loader_job({.workers = 4, .batches = 1000});
  EXPECT_EQ(find(diagnose(job.run, job.ranks), "gpu-unused"), nullptr);  // no GPU: a limit, no complaint
  job.process().facts["gpus"] = "1";
  job.process().facts["torch"] = "2.13.0+cpu";
  Diagnosis diagnosis = diagnose(job.run, job.ranks);
  const Finding* finding = find(diagnosis, "gpu-unused");
  ASSERT_NE(finding, nullptr);
  EXPECT_NE(finding->fix.summary.find("CUDA build"), std::string::npos);
  job.process().facts["torch"] = "2.13.0+cu130";
  job.process().facts["CUDA_VISIBLE_DEVICES"] = "";
  diagnosis = diagnose(job.run, job.ranks);
  EXPECT_EQ(setting_name(find(diagnosis, "gpu-unused")->fix.change), "CUDA_VISIBLE_DEVICES");
}

// "At most twice" may be nothing; "1.4 to 1.6 times" is not.
TEST(Findings, APredictionGoesBeforeAHigherCeiling) {
  test::Job job = test::make_device_job({{.gap_us = 250, .device_us = 500, .blocks = 12}, kSync}, kSteps);
  test::set_shares(job, {{Category::Sync, 0.33}});
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  const Finding *sync = find(diagnosis, "sync-per-step"), *batch = find(diagnosis, "small-batch");
  ASSERT_TRUE(sync && batch);
  ASSERT_TRUE(sync->prediction && !batch->prediction);
  EXPECT_GT(*batch->ceiling_speedup, 1.2 * sync->prediction->speedup.high);
  EXPECT_LT(sync, batch);  // of one vector
}

TEST(Findings, OfCeilingsTheHigherGoesFirst) {
  Action allocate{.op_class = OpClass::Alloc, .cost_us = 300};
  test::Job job = test::make_device_job({allocate, {.gap_us = 50, .device_us = 500}, kSync}, 10);
  test::set_shares(job, {{Category::Sync, 0.5}, {Category::Alloc, 0.2}});
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  const Finding *sync = find(diagnosis, "sync-per-step"), *churn = find(diagnosis, "allocator-churn");
  ASSERT_TRUE(sync && churn);
  ASSERT_TRUE(!sync->prediction && !churn->prediction);
  EXPECT_LT(sync, churn);
}

TEST(Findings, OfSeveralRanksAreMerged) {
  test::Job job = test::make_device_job({{.gap_us = 300, .device_us = 500}, kSync}, kSteps);
  test::set_shares(job, {{Category::Sync, 0.37}});
  job.process().rank = 0;
  job.run.processes.push_back(job.process());
  job.run.processes[1].rank = 1;
  job.ranks.push_back(job.ranks[0]);
  job.ranks[1].process = 1;
  Diagnosis diagnosis = diagnose(job.run, job.ranks);
  EXPECT_EQ(find(diagnosis, "sync-per-step")->ranks, (std::vector<uint32_t>{0, 1}));
}

}  // namespace
}  // namespace gpuwatch::advise
