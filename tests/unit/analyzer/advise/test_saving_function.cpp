// SPDX-License-Identifier: Apache-2.0
// What a function that saves does besides torch.save, as stack samples see it.
#include <gtest/gtest.h>

#include <string>

#include "cpu_training.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using model::Ns;

constexpr uint32_t kSaves = 90, kRenames = 91, kTrains = 92;
constexpr const char* kSaving =
    "/v/site-packages/torch/serialization.py:967 save\n/home/a/train.py:61 Trainer.save\n/home/a/train.py:40 "
    "main";
constexpr const char* kTraining = "/v/site-packages/torch/_tensor.py:521 backward\n/home/a/train.py:30 main";

// 100 steps of 10 ms: every second one saves for 2 ms, and a third of the rest is another line of `renaming`.
Diagnosis saving_job(const std::string& renaming) {
  CpuTraining training;
  model::Process& process = training.job.process();
  model::Thread& thread = process.threads[0];
  training.call(trace::OpClass::Checkpoint, 2'000'000, 2);
  training.job.run.texts[kSaves] = kSaving;
  training.job.run.texts[kRenames] = renaming;
  training.job.run.texts[kTrains] = kTraining;
  for (const model::HostCall& call : thread.calls) thread.stacks.push_back({call.begin, kSaves});
  const Ns begin = training.job.rank().steps.front().step.begin;
  const Ns end = training.job.rank().steps.back().step.end;
  training.job.rank().slices = {{begin, end, Category::Compute, 0}};
  test::set_shares(training.job, {{Category::Checkpoint, 0.1}});
  constexpr Ns kSamples = 3000;
  for (Ns i = 0; i < kSamples; ++i)
    thread.worker_stacks.push_back({begin + i * (end - begin) / kSamples, (end - begin) / kSamples,
                                    i % 3 == 0 ? kRenames : kTrains, process.pid});
  return training.diagnose();
}

TEST(SavingFunction, HasWhatFollowsTheSave) {
  const Diagnosis found = saving_job("/home/a/train.py:62 Trainer.save\n/home/a/train.py:40 main");
  expect_step(find(found, "checkpoint-stall"), 10, 10 * (1 - 0.1 - 0.3));
  const Diagnosis copied = saving_job(
      "/v/site-packages/torch/nn/modules/module.py:2269 Module.state_dict\n/home/a/train.py:60 Trainer.save");
  expect_step(find(copied, "checkpoint-stall"), 10, 10 * (1 - 0.1 - 0.3));
}

TEST(SavingFunction, IsNoneWhereItTrainsToo) {
  // The same file's other function, then a loop that saves and trains in one.
  expect_step(
      find(saving_job("/home/a/train.py:70 Trainer.log\n/home/a/train.py:41 main"), "checkpoint-stall"), 10,
      9);
  const Diagnosis loop = saving_job(
      "/v/site-packages/torch/nn/modules/module.py:1780 Module._call_impl\n/home/a/train.py:64 Trainer.save");
  expect_step(find(loop, "checkpoint-stall"), 10, 9);
}

}  // namespace
}  // namespace gpuwatch::advise
