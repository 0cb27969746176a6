// SPDX-License-Identifier: Apache-2.0
// Steps of several batches, after which ranks exchange gradients: after each, or once a step.
#include <gtest/gtest.h>

#include "analyzer/advise/diagnose.h"
#include "tests/unit/analyzer/advise/found.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using test::Action;
using trace::OpClass;

constexpr size_t kSteps = 60, kBatches = 4;
constexpr double kComputeUs = 700, kCollectiveUs = 300;

// One rank with a GPU: each batch is computed, and its gradients exchanged on the same stream.
test::Job device_rank(bool exchanges_each, const char* collective = "AllReduce_Sum_f32") {
  std::vector<Action> step;
  for (size_t batch = 1; batch <= kBatches; ++batch) {
    step.push_back({.op_class = OpClass::LoaderNext, .cost_us = 1});
    step.push_back({.device_us = kComputeUs});
    if (exchanges_each || batch == kBatches) step.push_back({.device_us = kCollectiveUs});
  }
  step.push_back({.op_class = OpClass::OptimizerStep, .cost_us = 1});
  step.push_back({.op_class = OpClass::Sync, .waits = true});
  test::Job job = test::make_device_job(step, kSteps);
  double all_us = 0, exchange_us = 0;
  for (const Action& action : step) {
    all_us += action.device_us;
    exchange_us += action.device_us == kCollectiveUs ? kCollectiveUs : 0;
  }
  for (model::DeviceOp& op : job.process().devices[0].operations) {
    if (op.end - op.begin > 1e3 * (kCollectiveUs + 1)) continue;
    job.run.kernels[op.kernel].name = std::string("ncclDevKernel_") + collective + "_RING_LL(args)";
    job.run.kernels[op.kernel].is_communication = true;
  }
  test::set_shares(job, {{Category::CommUnsplit, exchange_us / all_us}});
  return job;
}

TEST(SyncEachMicrobatch, PredictsOneExchangeAStep) {
  const test::Job job = device_rank(true);
  const Found finding(job, "sync-each-microbatch");
  ASSERT_TRUE(finding);
  EXPECT_EQ(setting_name(finding->fix.change), "no_sync");
  EXPECT_NE(finding->fix.summary.find("all but the last of its 4 batches"), std::string::npos)
      << finding->fix.summary;
  ASSERT_TRUE(finding->prediction);
  const double now_ms = 4 * (kComputeUs + kCollectiveUs) / 1e3;
  const double after_ms = now_ms - 3 * kCollectiveUs / 1e3;
  EXPECT_LE(finding->prediction->value.low, after_ms * 1.01);
  EXPECT_GE(finding->prediction->value.high, after_ms);
  EXPECT_NEAR(finding->lost_share, 3 * kCollectiveUs / 1e3 / now_ms, 0.02);
}

// Sharded parameters are gathered for each batch, with no_sync(), too.
TEST(SyncEachMicrobatch, IsSilentAboutGatheredParameters) {
  const test::Job job = device_rank(true, "AllGather");
  EXPECT_FALSE(Found(job, "sync-each-microbatch"));
}

// Two networks that take a batch each: an optimizer's step follows each of them.
TEST(SyncEachMicrobatch, IsSilentWhereEachBatchIsOptimized) {
  test::Job job = device_rank(true);
  std::vector<model::HostCall>& calls = job.process().threads[0].calls;
  std::vector<model::Ns> batches;
  for (const model::HostCall& call : calls)
    if (call.op_class == OpClass::LoaderNext) batches.push_back(call.begin);
  model::Thread& thread = job.process().threads.emplace_back(job.process().threads[0]);
  job.process().training_thread = uint32_t(job.process().threads.size() - 1);
  thread.calls.clear();
  for (const model::Ns begin : batches) {
    thread.calls.push_back({begin - 2, begin - 1, 0, 0, model::kNone, 0, OpClass::OptimizerStep, 0});
    thread.calls.push_back({begin, begin + 1, 0, 0, model::kNone, 0, OpClass::LoaderNext, 0});
  }
  EXPECT_FALSE(Found(job, "sync-each-microbatch"));
}

TEST(SyncEachMicrobatch, IsSilentWhereGradientsAreExchangedOnceAStep) {
  const test::Job job = device_rank(false);
  EXPECT_FALSE(Found(job, "sync-each-microbatch"));
}

// Gloo: the host waits. Two ranks, of which none is late; 40 ms of each step of four batches are waiting.
test::Job host_rank(bool exchanges_each) {
  constexpr model::Ns kMs = 1'000'000;
  test::Job job = test::make_loader_job({.workers = 0,
                                         .batches = kSteps,
                                         .service_ms = [](size_t) { return 0.1; },
                                         .think_ms = [](size_t) { return 100.0; }});
  test::set_shares(job, {{Category::CommHost, exchanges_each ? 0.4 : 0.1}});
  model::Thread& thread = job.process().threads[job.process().training_thread];
  thread.calls.clear();
  std::vector<attribute::Slice>& slices = job.rank().slices;
  slices.clear();
  for (const attribute::StepAttribution& step : job.rank().steps)
    for (size_t batch = 0; batch < kBatches; ++batch) {
      const model::Ns begin = step.step.begin + model::Ns(25 * batch) * kMs;
      thread.calls.push_back({begin, begin + 1000, 0, 0, model::kNone, 0, OpClass::LoaderNext, 0});
      if (!exchanges_each && batch + 1 < kBatches) continue;
      const model::Ns wait = begin + 10 * kMs;
      slices.push_back({wait, wait + 10 * kMs, Category::CommHost, job.process().training_thread,
                        uint32_t(thread.calls.size())});
      thread.calls.push_back({wait, wait + 10 * kMs, 0, 0, model::kNone, 0, OpClass::Wait, 0});
      if (batch + 1 < kBatches) continue;
      const model::Ns step_at = wait + 11 * kMs;
      thread.calls.push_back({step_at, step_at + kMs, 0, 0, model::kNone, 0, OpClass::OptimizerStep, 0});
    }
  return job;
}

TEST(SyncEachMicrobatch, IsSeenWhereTheHostWaitsForOtherRanks) {
  const test::Job job = test::join_ranks({host_rank(true), host_rank(true)});
  const Found finding(job, "sync-each-microbatch");
  ASSERT_TRUE(finding);
  EXPECT_NEAR(finding->lost_share, 0.3, 0.02);
  const double speedup =
      finding->prediction ? finding->prediction->speedup.expected : finding->ceiling_speedup.value_or(0);
  EXPECT_NEAR(speedup, 1 / (1 - 0.3), 0.1);
  // What is left of communication has a finding, too; it does not propose the same again.
  const Found rest(job, "exposed-communication");
  ASSERT_TRUE(rest);
  EXPECT_NEAR(rest->lost_share, 0.1, 0.02);
  EXPECT_EQ(rest->fix.summary.find("no_sync"), std::string::npos);
  // What goes with an exchange is up to twice what is waited for it.
  EXPECT_NEAR(rest->ceiling_speedup.value_or(0), 1 / (1 - 2 * 0.1), 0.03);
}

TEST(SyncEachMicrobatch, IsSilentWhereTheHostWaitsOnceAStep) {
  const test::Job job = test::join_ranks({host_rank(false), host_rank(false)});
  EXPECT_FALSE(Found(job, "sync-each-microbatch"));
}

TEST(NcclTransport, NamesTheVariableThatForcesASlowPath) {
  test::Job job = device_rank(false);
  EXPECT_FALSE(Found(job, "nccl-transport"));
  job.process().facts["NCCL_IB_DISABLE"] = "1";
  EXPECT_FALSE(Found(job, "nccl-transport"));  // one host
  job.process().facts["NCCL_P2P_DISABLE"] = "0";
  EXPECT_FALSE(Found(job, "nccl-transport"));
  job.process().facts["NCCL_P2P_DISABLE"] = "1";
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  ASSERT_FALSE(diagnosis.findings.empty());
  EXPECT_EQ(diagnosis.findings.front().id, "nccl-transport");
  EXPECT_EQ(setting_name(diagnosis.findings.front().fix.change), "NCCL_P2P_DISABLE");
}

}  // namespace
}  // namespace gpuwatch::advise
