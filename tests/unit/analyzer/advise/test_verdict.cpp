// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/unit/analyzer/advise/found.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;

std::string verdict_with(std::initializer_list<std::pair<Category, double>> shares, size_t steps = 100) {
  test::Job job = test::make_device_job({{.device_us = 500}}, steps);
  test::set_shares(job, shares);
  return verdict(job.run, job.ranks, {}).id;
}

TEST(Verdict, NamesTheLargestLoss) {
  EXPECT_EQ(verdict_with({{Category::InputIo, 0.3}, {Category::Sync, 0.2}}), "input-bound");
  EXPECT_EQ(verdict_with({{Category::InputIo, 0.2}, {Category::Sync, 0.3}}), "host-bound");
  EXPECT_EQ(verdict_with({{Category::CopyH2D, 0.2}, {Category::CopyStaging, 0.2}, {Category::Sync, 0.3}}),
            "copy-bound");
  EXPECT_EQ(verdict_with({{Category::CommUnsplit, 0.2}}), "comm-bound");
}

TEST(Verdict, IsHealthyBelowFivePercent) {
  EXPECT_EQ(verdict_with({{Category::InputIo, 0.04}, {Category::Sync, 0.04}}), "healthy");
}

// ResNet-50 on an H200: the GPU idles for 7% between its kernels, and no advice comes of it.
TEST(Verdict, IsNoLossOfSevenPercentWithoutAdviceWhereTheGpuIsTheLimit) {
  EXPECT_EQ(verdict_with({{Category::Compute, 0.93}, {Category::LaunchDispatch, 0.07}}), "healthy");
  EXPECT_EQ(verdict_with({{Category::Compute, 0.8}, {Category::LaunchDispatch, 0.2}}), "host-bound");
  EXPECT_EQ(verdict_with({{Category::Compute, 0.93}, {Category::CommUnsplit, 0.07}}), "comm-bound");
  test::Job job = test::make_device_job({{.device_us = 500}}, 100);
  test::set_shares(job, {{Category::Compute, 0.93}, {Category::LaunchDispatch, 0.07}});
  Finding finding;
  finding.severity = Severity::kMinor;
  finding.bottleneck = attribute::Bottleneck::Host;
  EXPECT_EQ(verdict(job.run, job.ranks, {finding}).id, "host-bound");
}

TEST(Verdict, BoundsDataLoadingByNoLessThanAFindingDoes) {
  test::Job job = test::make_loader_job({.workers = 4});
  test::set_shares(job, {{Category::InputTransform, 0.04}});
  Finding fewer;
  fewer.bottleneck = attribute::Bottleneck::Input;
  fewer.too_wide = predict::Prediction{};
  fewer.ceiling_speedup = 2.3;
  const auto sentence = [&](const Finding& finding) {
    return verdict(job.run, job.ranks, {finding}).sentence;
  };
  EXPECT_NE(sentence(fewer).find("faster data loading gains up to 2.30x"), std::string::npos);
  fewer.bottleneck = attribute::Bottleneck::Host;
  EXPECT_NE(sentence(fewer).find("faster data loading gains up to 1.04x"), std::string::npos);
}

TEST(Verdict, DoesNotJudgeWhatItCouldNotSee) {
  EXPECT_EQ(verdict_with({{Category::DeviceUnobserved, 0.9}}), "cannot-tell");
  EXPECT_EQ(verdict_with({{Category::Unknown, 0.9}}), "cannot-tell");
  EXPECT_EQ(verdict_with({{Category::DeviceUnobserved, 0.6}, {Category::InputIo, 0.4}}), "input-bound");
}

TEST(Verdict, WaitsForTwoSteps) {
  EXPECT_EQ(verdict_with({{Category::InputIo, 0.5}}, 1), "too-short");
  EXPECT_EQ(verdict({}, {}, {}).id, "no-training");
}

// A rank of a job that set its model up and ended without a step.
model::Process ended_in_set_up(model::EndState end, int code) {
  test::Job job = test::make_device_job({{.device_us = 500}}, 1);
  model::Process process = job.process();
  process.script = "/home/me/train.py";
  process.end_state = end;
  process.exit_code = code;
  return process;
}

std::string verdict_of(std::vector<model::Process> processes, const char* id) {
  model::Run run;
  run.processes = std::move(processes);
  const Verdict found = verdict(run, {}, {});
  EXPECT_EQ(found.id, id) << found.sentence;
  return found.sentence;
}

TEST(Verdict, SaysThatAJobEndedBeforeItTrained) {
  const model::Process failed = ended_in_set_up(model::EndState::kExited, 1);
  EXPECT_EQ(verdict_of({failed}, "no-training"),
            "ENDED WITH AN ERROR: train.py exited with code 1 before it completed a training step; its own "
            "output says why");
  const model::Process killed = ended_in_set_up(model::EndState::kKilledOrRunning, 0);
  EXPECT_EQ(verdict_of({killed}, "no-training").substr(0, 27), "KILLED OR CRASHED: train.py");
  EXPECT_NE(verdict_of({ended_in_set_up(model::EndState::kExited, 0)}, "no-training").find("ran, but no"),
            std::string::npos);
  EXPECT_NE(verdict_of({ended_in_set_up(model::EndState::kUnknown, 0)}, "no-training").find("ran, but no"),
            std::string::npos);
  model::Process running = killed;
  running.is_running = true;
  EXPECT_NE(verdict_of({running}, "no-training").find("is still running"), std::string::npos);
}

// The launcher kills the other ranks when one fails, and their trace may end first.
TEST(Verdict, NamesTheRankThatFailed) {
  model::Process killed = ended_in_set_up(model::EndState::kKilledOrRunning, 0);
  model::Process first = ended_in_set_up(model::EndState::kExited, 3), second = first;
  killed.world_size = first.world_size = second.world_size = 3;
  killed.rank = 0, first.rank = 1, second.rank = 2;
  second.exit_code = 1;
  killed.last_seen = 10, first.last_seen = 20, second.last_seen = 30;
  const std::string sentence = verdict_of({killed, second, first}, "no-training");
  EXPECT_NE(sentence.find("rank 1 of train.py exited with code 3"), std::string::npos) << sentence;
}

TEST(Verdict, OfALoaderWorkerThatFailedIsNotOfTheJob) {
  model::Process rank = ended_in_set_up(model::EndState::kExited, 0), worker = rank;
  worker.worker_of = 0;
  worker.exit_code = 1;
  EXPECT_NE(verdict_of({rank, worker}, "no-training").find("ran, but no"), std::string::npos);
}

TEST(Verdict, SaysWhyAJobWasShort) {
  test::Job job = test::make_device_job({{.device_us = 500}}, 1);
  job.process().end_state = model::EndState::kExited;
  job.process().exit_code = 1;
  const Verdict failed = verdict(job.run, job.ranks, {});
  EXPECT_EQ(failed.id, "too-short");
  EXPECT_NE(failed.sentence.find("exited with code 1"), std::string::npos) << failed.sentence;
}

TEST(Verdict, CountsTheCeilingFromTheLoss) {
  test::Job job = test::make_device_job({{.device_us = 500}}, 100);
  test::set_shares(job, {{Category::InputIo, 0.5}});
  EXPECT_NEAR(verdict(job.run, job.ranks, {}).ceiling_speedup, 2, 1e-3);
}

Finding complaint(const char* id, double ceiling) {
  Finding finding;
  finding.id = id;
  finding.ceiling_speedup = ceiling;
  return finding;
}

TEST(Verdict, SaysThatTheGpuIsNotUsed) {
  test::Job job = test::make_loader_job({.workers = 0});
  test::set_shares(job, {{Category::InputTransform, 0.01}});
  const Verdict unused = verdict(job.run, job.ranks, {complaint("gpu-unused", 97)});
  EXPECT_EQ(unused.id, "cpu-job");
  EXPECT_NE(unused.sentence.find("has a GPU that is not used"), std::string::npos) << unused.sentence;
  EXPECT_DOUBLE_EQ(unused.ceiling_speedup, 97);
  test::set_shares(job, {{Category::InputTransform, 0.8}});
  EXPECT_EQ(verdict(job.run, job.ranks, {complaint("gpu-unused", 1.2)}).id, "input-bound");
}

// One rank sleeps, the other one waits for it: the verdict is about the first, and says so.
TEST(Verdict, IsOfTheRankThatTheOthersWaitFor) {
  test::Job job = test::make_loader_job({.workers = 0});
  test::Job late = job;
  job.process().rank = 0;
  late.process().rank = 1;
  test::set_shares(job, {{Category::CommHost, 0.85}});
  test::set_shares(late, {{Category::HostWait, 0.8}});
  job.run.processes.push_back(late.process());
  late.rank().process = 1;
  job.ranks.push_back(late.rank());
  const Verdict of_two = verdict(job.run, job.ranks, {});
  EXPECT_EQ(of_two.id, "host-bound");
  EXPECT_NE(of_two.sentence.find("on rank 1"), std::string::npos) << of_two.sentence;
  job.ranks.erase(job.ranks.begin());
  EXPECT_EQ(verdict(job.run, job.ranks, {}).sentence.find("on rank"), std::string::npos);
}

// Steal time shows in every job of an oversold host.
TEST(Verdict, OfAHealthyJobStaysWhereOnlyTheMachineIsToBlame) {
  test::Job job = test::make_device_job({{.device_us = 500}}, 100);
  test::set_shares(job, {{Category::Sched, 0.2}});
  Finding steal = complaint("cpu-steal", 1.2);
  steal.explains = {Category::Sched};
  const Verdict healthy = verdict(job.run, job.ranks, {steal});
  EXPECT_EQ(healthy.id, "healthy");
  EXPECT_NE(healthy.sentence.find("waits for a CPU core 20% of the time"), std::string::npos);
  EXPECT_NEAR(healthy.ceiling_speedup, 1, 0.01);
}

TEST(Limits, SayWhatWasNotSeen) {
  test::Job job = test::make_device_job({{.device_us = 500}}, 100);
  job.process().sources["cupti"] = {trace::SourceState::Held, "held by Nsight", "Nsight"};
  job.process().dropped_records["file size limit"] = 7;
  job.process().incomplete["streams are known by their GPU alone"] = 9;
  const std::vector<Limit> sentences = limits(job.run, job.ranks);
  EXPECT_TRUE(says(sentences, "held by Nsight"));
  EXPECT_TRUE(says(sentences, "7 records were dropped"));
  EXPECT_TRUE(says(sentences, "9 records are incomplete: streams are known by their GPU alone."));
  EXPECT_FALSE(says(sentences, "cuda: on"));
}

TEST(Limits, CountLaunchesThatAreKnownByNameAlone) {
  const char* words = "kernel launches are recorded by name alone";
  test::Job job = test::make_device_job({{.device_us = 500}, {.device_us = 500, .blocks = 0}}, 100);
  EXPECT_TRUE(says(limits(job.run, job.ranks), "100 of 200 kernel launches are recorded by name alone"));
  job.process().imported_from = "torch.profiler";
  EXPECT_FALSE(says(limits(job.run, job.ranks), words));
  test::Job known = test::make_device_job({{.device_us = 500}}, 100);
  EXPECT_FALSE(says(limits(known.run, known.ranks), words));
}

TEST(Limits, SayWhereTheScriptWasAheadOfItsDevice) {
  test::Job job = test::make_device_job({{.cost_us = 5, .device_us = 500}}, 100);
  const char* words = "before the GPU had finished them";
  EXPECT_FALSE(says(diagnose(job.run, job.ranks).limits, words));
  attribute::StepAttribution& last = job.rank().steps.back();
  last.step.end = last.step.begin + 5000;
  test::set_shares(job, {});
  EXPECT_TRUE(says(diagnose(job.run, job.ranks).limits, words));
}

}  // namespace
}  // namespace gpuwatch::advise
