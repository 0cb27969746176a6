// SPDX-License-Identifier: Apache-2.0
// Collectives that no compute hides, on steps of one stream for compute and one for communication.
#include <gtest/gtest.h>

#include "analyzer/advise/diagnose.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using test::Action;

constexpr size_t kSteps = 100;

struct Wanted {
  std::string collective = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
  std::vector<double> collectives_us = {300};
  bool is_hidden = false;  // next to compute, on another stream
  bool trains = true;
};

test::Job job_of(const Wanted& wanted) {
  std::vector<Action> step;
  for (const double us : wanted.collectives_us) {
    if (wanted.is_hidden) step.push_back({.device_us = us, .stream = 1});
    step.push_back({.device_us = 700.0 / double(wanted.collectives_us.size())});
    if (!wanted.is_hidden) step.push_back({.device_us = us});
  }
  if (wanted.trains) step.push_back({.op_class = trace::OpClass::OptimizerStep, .cost_us = 1});
  test::Job job = test::make_device_job(step, kSteps);
  double all_us = 0, collectives_us = 0;
  for (const Action& action : step) all_us += action.device_us;
  for (const double us : wanted.collectives_us) collectives_us += us;
  const size_t kernels = 2 * wanted.collectives_us.size();
  for (size_t i = 0; i < job.run.kernels.size(); ++i) {
    const bool is_collective = (i % kernels) % 2 == (wanted.is_hidden ? 0 : 1);
    job.run.kernels[i].name =
        is_collective ? wanted.collective : "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_tn";
    job.run.kernels[i].is_communication = is_collective;
  }
  if (!wanted.is_hidden) test::set_shares(job, {{Category::CommUnsplit, collectives_us / all_us}});
  return job;
}

const Finding* find(const Diagnosis& diagnosis) {
  for (const Finding& finding : diagnosis.findings)
    if (finding.id == "exposed-communication") return &finding;
  return nullptr;
}

TEST(ExposedCommunication, IsBoundedByWhatIsExposed) {
  test::Job job = job_of({});
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  const Finding* finding = find(diagnosis);
  ASSERT_NE(finding, nullptr);
  EXPECT_FALSE(finding->prediction);
  ASSERT_TRUE(finding->ceiling_speedup);
  EXPECT_NEAR(*finding->ceiling_speedup, 1 / (1 - 0.3), 0.02);
  EXPECT_EQ(finding->evidence[1].what, "communication hidden behind compute");
  EXPECT_NEAR(finding->evidence[1].value, 0, 3);
  EXPECT_EQ(diagnosis.verdict.id, "comm-bound");
}

TEST(ExposedCommunication, IsSilentWhereComputeHidesIt) {
  test::Job job = job_of({.is_hidden = true});
  EXPECT_EQ(find(diagnose(job.run, job.ranks)), nullptr);
}

TEST(ExposedCommunication, OneBucketIsTooFew) {
  test::Job job = job_of({});
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  EXPECT_EQ(setting_name(find(diagnosis)->fix.change), "bucket_cap_mb");
  EXPECT_EQ(setting_value(find(diagnosis)->fix.change), "10");
}

TEST(ExposedCommunication, ManyShortCollectivesAreTooMany) {
  test::Job job = job_of({.collectives_us = std::vector<double>(20, 15)});
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  EXPECT_EQ(setting_value(find(diagnosis)->fix.change), "100");
}

TEST(ExposedCommunication, OtherCollectivesAreNotOfDistributedDataParallel) {
  test::Job sharded =
      job_of({.collective = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"});
  EXPECT_NE(find(diagnose(sharded.run, sharded.ranks))->fix.summary.find("FSDP"), std::string::npos);
  test::Job exchange = job_of({.collective = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)"});
  EXPECT_NE(find(diagnose(exchange.run, exchange.ranks))->fix.summary.find("exchange"), std::string::npos);
  test::Job inference = job_of({.trains = false});
  EXPECT_EQ(find(diagnose(inference.run, inference.ranks))->fix.summary.find("DistributedDataParallel"),
            std::string::npos);
}

}  // namespace
}  // namespace gpuwatch::advise
