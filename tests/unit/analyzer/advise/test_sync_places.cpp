// SPDX-License-Identifier: Apache-2.0
// Calls that wait for the same GPU work are one cause: as people write them, and neighbours that are none.
#include <gtest/gtest.h>

#include "analyzer/advise/diagnose.h"
#include "analyzer/advise/host_calls.h"
#include "libinject/trace/layout.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using test::Action;
using trace::OpClass;
using trace::RecordKind;

constexpr size_t kSteps = 100;
const Action kWork{.gap_us = 300, .device_us = 500};
const Action kSync{.op_class = OpClass::Sync, .cost_us = 2, .waits = true, .caller = 0x1000};
const Action kFree{.op_class = OpClass::Free, .cost_us = 5, .waits = true, .caller = 0x3000};

Action to_host(uint64_t bytes) {
  return {.op_class = OpClass::Copy,
          .gap_us = 2,
          .device_us = 10,
          .waits = true,
          .kind = RecordKind::CopyD2H,
          .bytes = bytes,
          .caller = 0x2000};
}

test::Job job_of(const std::vector<Action>& step, bool is_torch = true) {
  test::Job job = test::make_device_job(step, kSteps);
  if (!is_torch) job.process().facts.clear();
  test::set_shares(job, {{Category::Sync, 0.37}});
  return job;
}

std::optional<Finding> stalls(const test::Job& job) {
  for (const Finding& finding : diagnose(job.run, job.ranks).findings)
    if (finding.id == "sync-per-step") return finding;
  return std::nullopt;
}

void expect_achieved(const std::optional<Finding>& finding, const std::vector<Action>& fixed) {
  ASSERT_TRUE(finding && finding->prediction);
  const double really = test::device_step_us(fixed, kSteps) / 1e3;
  EXPECT_LE(finding->prediction->value.low, really * 1.001);
  EXPECT_GE(finding->prediction->value.high, really * 0.999);
}

// `.cpu()`, `.tolist()`, `.numpy()`: either call alone is as slow, because the other waits for the same work.
TEST(SyncPlaces, APageableCopyAndTheSynchronizationBehindIt) {
  for (const uint64_t bytes : {704, 256 << 10}) {
    const auto finding = stalls(job_of({kWork, to_host(bytes), kSync}));
    Action copy = to_host(bytes);
    copy.waits = false;
    expect_achieved(finding, {kWork, copy});
    EXPECT_NE(finding->title.find("cudaMemcpyAsync and cudaStreamSynchronize block"), std::string::npos);
    EXPECT_EQ(finding->fix.summary.find("pinned") != std::string::npos, bytes > 4096);
  }
}

// loss.item(), then a short kernel and the accuracy's .item() in another line.
TEST(SyncPlaces, TwoLinesThatTakeEachOthersPlace) {
  Action loss = to_host(4), accuracy = to_host(8);
  accuracy.caller = 0x2800;
  const Action compare{.gap_us = 3, .device_us = 4};
  const auto finding = stalls(job_of({kWork, loss, compare, accuracy}));
  loss.waits = accuracy.waits = false;
  expect_achieved(finding, {kWork, loss, compare, accuracy});
  EXPECT_FALSE(finding->prediction->assumptions.empty());
}

TEST(SyncPlaces, AFreeThatTakesTheSynchronizationsPlace) {
  const auto finding = stalls(job_of({kWork, kSync, kFree}, false));
  Action free = kFree;
  free.waits = false;
  expect_achieved(finding, {kWork, free});
  EXPECT_NE(finding->title.find("cudaFree"), std::string::npos);
  EXPECT_NE(finding->fix.summary.find("allocate GPU memory once"), std::string::npos);
}

// What 40 MB take to pinned memory was not seen: an upper bound, unless such copies were recorded.
TEST(SyncPlaces, KnowsTheSpeedOfPinnedCopiesOrGivesABound) {
  Action fetch = to_host(40 << 20);
  fetch.device_us = 4000;
  const auto job_with = [&](const std::vector<Action>& step) {
    test::Job job = job_of(step);
    for (model::DeviceOp& op : job.process().devices[0].operations)
      if (op.bytes == fetch.bytes) op.flags = trace::kDestinationPageable;
    return job;
  };
  const auto unknown = stalls(job_with({kWork, fetch, kSync}));
  ASSERT_TRUE(unknown);
  EXPECT_FALSE(unknown->prediction);
  Action fast = fetch, pinned = to_host(1 << 20);
  fast.device_us = 800;
  fast.waits = pinned.waits = false;
  pinned.device_us = 20;
  const double now = test::device_step_us({kWork, fetch, kSync}, kSteps);
  EXPECT_GE(*unknown->ceiling_speedup, now / test::device_step_us({kWork, fast}, kSteps));
  expect_achieved(stalls(job_with({kWork, pinned, fetch, kSync})), {kWork, pinned, fast});
}

// Each gains by itself: only the one that gains more is named.
TEST(SyncPlaces, NamesNoPlaceThatGainsNothing) {
  Action early = kSync;
  early.caller = 0x5000;
  early.cost_us = 0.5;
  const auto finding = stalls(job_of({early, kWork, kSync}));
  ASSERT_TRUE(finding);
  for (const Evidence& evidence : finding->evidence)
    EXPECT_EQ(evidence.what.find("also waits"), std::string::npos);
}

// A wait each step, and one more in some: 1.02 of them.
TEST(SyncPlaces, AreCountedInWords) {
  EXPECT_EQ(times_a_step(1.02), "once a step");
  EXPECT_EQ(times_a_step(1), "once a step");
  EXPECT_EQ(times_a_step(1.2), "1.2 times a step");
  EXPECT_EQ(times_a_step(3.02), "3 times a step");
  EXPECT_EQ(times_a_step(0.02), "every 50 steps");
}

TEST(SyncPlaces, SilentWhereWaitingCostsNothing) {
  const Action device_bound{.device_us = 2000};
  EXPECT_FALSE(stalls(job_of({device_bound, to_host(1 << 20), kSync})));
  Action pinned = to_host(1 << 20);
  pinned.waits = false;
  EXPECT_FALSE(stalls(job_of({kWork, pinned})));
}

// torch.save() copies each tensor to the host: those copies are the checkpoint's, and go with it.
TEST(SyncPlaces, CopiesWithinACheckpointBelongToIt) {
  const Action save{.op_class = OpClass::Checkpoint, .cost_us = 0};
  const Action write{.gap_us = 200, .cost_us = 1, .device_us = 1};
  Action tensor = to_host(1 << 20);
  tensor.device_us = 150;
  test::Job job = job_of({kWork, save, tensor, kSync, tensor, kSync, write});
  std::vector<model::HostCall>& calls = job.process().threads[0].calls;
  for (size_t i = 0; i < calls.size(); ++i)
    if (calls[i].op_class == OpClass::Checkpoint) calls[i].end = calls[i + 4].end + 100'000;
  EXPECT_FALSE(stalls(job));
  const auto findings = diagnose(job.run, job.ranks).findings;
  const auto checkpoint = std::ranges::find(findings, "checkpoint-stall", &Finding::id);
  ASSERT_NE(checkpoint, findings.end());
  Action after = write;
  after.gap_us = 100;
  expect_achieved(*checkpoint, {kWork, after});
}

// The same by hand: every tensor is fetched and written, in every tenth step.
TEST(SyncPlaces, CopiesBeforeAWriteOfACheckpointBelongToIt) {
  const Action write{.op_class = OpClass::Write, .gap_us = 20, .cost_us = 3000};
  Action tensor = to_host(4 << 20);
  tensor.device_us = 1000;
  std::vector<Action> ten(10, kWork);
  for (int i = 0; i < 4; ++i) ten.insert(ten.end(), {tensor, write});
  test::Job job = test::make_device_job(ten, kSteps / 10);
  job.process().facts.clear();
  const auto& calls = job.process().threads[0].calls;
  std::vector<model::TimeSpan> steps;
  for (const model::HostCall& call : calls) {
    if (call.op_class != OpClass::Launch) continue;
    if (!steps.empty()) steps.back().end = call.begin;
    steps.push_back({call.begin, calls.back().end});
  }
  test::set_steps(job, steps);
  test::set_shares(job, {{Category::Checkpoint, 0.5}});
  const auto findings = diagnose(job.run, job.ranks).findings;
  const auto checkpoint = std::ranges::find(findings, "checkpoint-stall", &Finding::id);
  ASSERT_NE(checkpoint, findings.end());
  ASSERT_TRUE(checkpoint->prediction);
  Action kept = kWork;  // 20 and 2 us before the four writes and copies of ten steps remain
  kept.gap_us += 4 * (20 + 2) / 10.0;
  expect_achieved(*checkpoint, {kept});
}

}  // namespace
}  // namespace gpuwatch::advise
