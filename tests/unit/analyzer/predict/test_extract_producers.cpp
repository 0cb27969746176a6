// SPDX-License-Identifier: Apache-2.0
// Which threads of a program without a loader make its data.
#include <gtest/gtest.h>

#include "analyzer/predict/producer_replay.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::predict {
namespace {

using model::Ns;
using trace::OpClass;

constexpr Ns kMs = 1'000'000;
constexpr int kSteps = 100;
constexpr Ns kStep = 24 * kMs, kWait = 15 * kMs;

// Each step waits 15 of 24 ms, then trains. A second thread only sleeps, and wakes `early` before the wait
// ends.
using Others = std::vector<model::Thread>;  // beside these two

std::optional<ProducerReplayInput> producers_with(Ns early, const Others& others = {}) {
  test::Job job = test::make_loader_job({.workers = 0, .batches = kSteps});
  model::Process& process = job.process();
  process.epochs.clear();
  process.loaders.clear();
  std::vector<model::TimeSpan> steps;
  for (int i = 0; i < kSteps; ++i) steps.push_back({i * kStep, (i + 1) * kStep});
  test::set_steps(job, steps);
  test::set_shares(job, {{attribute::Category::InputWait, double(kWait) / kStep}});
  job.run.operations = {{"pthread_cond_wait", OpClass::Wait}, {"nanosleep", OpClass::Sleep}};
  process.threads.resize(2);
  model::Thread &training = process.threads[process.training_thread], &sleeps = process.threads[1];
  training.calls.clear();
  job.rank().slices.clear();
  for (int i = 0; i < kSteps; ++i) {
    const Ns begin = i * kStep, woken = begin + kWait;
    job.rank().slices.push_back({begin, woken, attribute::Category::InputWait, process.training_thread,
                                 uint32_t(training.calls.size())});
    training.calls.push_back({begin, woken, 0, 0, 0, 0, OpClass::Wait, 0});
    if (i > 0)
      sleeps.calls.push_back({woken - early - kStep + kMs, woken - early, 0, 0, 0, 1, OpClass::Sleep, 0});
  }
  process.threads.insert(process.threads.end(), others.begin(), others.end());
  return extract_producers(job.run, job.rank());
}

TEST(Producers, MaySleepOnlyWhereTrainingAlwaysWaitsForThem) {
  const auto decoder = producers_with(kMs / 20);
  ASSERT_TRUE(decoder);
  EXPECT_EQ(decoder->threads, std::vector<uint32_t>{1});
  EXPECT_GT(decoder->busy_share, 0.95);
  EXPECT_NEAR(decoder->wait_ms, 15, 0.1);
  EXPECT_FALSE(producers_with(5 * kMs)) << "a timer";
}

// What a reader on an H200 has beside its decoder: a thread that polls to the end, one that is still in its
// second wait, and one that is known by its name.
TEST(Producers, AreNoThreadsOfTheDriver) {
  Others driver(4);
  driver[0].calls.push_back({-kMs, (kSteps + 1) * kStep, 0, 0, 0, 0, OpClass::Poll, 0});
  driver[1].calls.push_back({0, 10 * kStep, 0, 0, 0, 0, OpClass::Wait, 0});
  driver[1].open_calls.push_back({11 * kStep, 0, 0});
  driver[2].name = "cuda-EvtHandlr";
  driver[2].calls.push_back({kStep, 2 * kStep, 0, 0, 0, 0, OpClass::Poll, 0});
  for (int i = 0; i < 20; ++i)  // works for a tenth of the time
    driver[3].calls.push_back({5 * i * kStep, 5 * i * kStep + 9 * kStep / 2, 0, 0, 0, 0, OpClass::Wait, 0});
  Others evaluated(1);  // makes data, and waits while the job evaluates for 30 steps
  for (int i = 0; i < 20; ++i)
    evaluated[0].calls.push_back({2 * i * kStep, 2 * i * kStep + kMs, 0, 0, 0, 0, OpClass::Wait, 0});
  evaluated[0].calls.push_back({60 * kStep, 90 * kStep, 0, 0, 0, 0, OpClass::Wait, 0});
  EXPECT_EQ(producers_with(kMs / 20, evaluated)->threads.size(), 2u);
  const auto found = producers_with(kMs / 20, driver);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->threads, std::vector<uint32_t>{1});
  EXPECT_GT(found->busy_share, 0.95);
}

// A pool's processes make the batches; a thread reads them from its pipe, and more of these gain nothing.
TEST(Producers, AreNoThreadsThatPassOnWhatProcessesMake) {
  constexpr uint32_t kPipe = 0x50495045, kFile = 0xef53;
  const auto reader_of = [](uint32_t filesystem) {
    Others reader(1);
    for (int i = 0; i < kSteps; ++i) {
      reader[0].io_details.push_back(trace::IoDetail(1000, 5, 0, filesystem));
      reader[0].calls.push_back({i * kStep, i * kStep + kWait, 0, 0, uint32_t(i), 1, OpClass::Read, 0});
    }
    return reader;
  };
  ASSERT_TRUE(producers_with(5 * kMs, reader_of(kFile)));
  EXPECT_FALSE(producers_with(5 * kMs, reader_of(kPipe)));
}

}  // namespace
}  // namespace gpuwatch::predict
