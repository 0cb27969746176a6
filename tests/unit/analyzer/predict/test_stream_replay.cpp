// SPDX-License-Identifier: Apache-2.0
// The host-and-stream replay against schedules that are computed step by step without it.
#include <gtest/gtest.h>

#include <random>

#include "analyzer/predict/merged_launches.h"
#include "analyzer/predict/stream_replay.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::predict {
namespace {

using test::Action;
using trace::OpClass;

constexpr size_t kSteps = 100;

StreamReplayInput record(const std::vector<Action>& step) {
  test::Job job = test::make_device_job(step, kSteps);
  auto recording = extract_streams(job.run, job.rank());
  EXPECT_TRUE(recording);
  return recording.value_or(StreamReplayInput{});
}

void expect_replay(const std::vector<Action>& step) {
  double really = test::device_step_us(step, kSteps) / 1e3;
  EXPECT_NEAR(replay(record(step)).step_ms, really, really * 0.02);
}

const Action kSync{.op_class = OpClass::Sync, .cost_us = 2, .waits = true};

TEST(StreamReplay, ReproducesADeviceBoundStep) {
  expect_replay({{.gap_us = 3, .device_us = 200}, {.device_us = 300}});
}

TEST(StreamReplay, ReproducesALaunchBoundStep) {
  expect_replay(std::vector<Action>(50, Action{.gap_us = 8, .cost_us = 4, .device_us = 3}));
}

TEST(StreamReplay, ReproducesASynchronisationInEachStep) {
  expect_replay({{.gap_us = 200, .device_us = 300}, {.device_us = 100}, kSync});
}

TEST(StreamReplay, ReproducesACopyThatBlocks) {
  Action copy{.op_class = OpClass::Copy, .device_us = 400, .waits = true, .kind = trace::RecordKind::CopyH2D};
  expect_replay({{.gap_us = 50, .device_us = 300}, copy});
}

// The thread lost its core, and the copy returned 200 us after its end: the step was that much longer, and
// the device waited. Without the wait it loses its core, too, with work enqueued.
TEST(StreamReplay, ALostCoreIsHostTimeWhateverItWaitedFor) {
  const Action copy{.op_class = OpClass::Copy,
                    .device_us = 2,
                    .waits = true,
                    .kind = trace::RecordKind::CopyD2H,
                    .bytes = 4};
  const std::vector<Action> step = {{.gap_us = 10, .device_us = 300}, copy, {.gap_us = 210, .device_us = 1}};
  test::Job job = test::make_device_job(step, kSteps);
  for (model::HostCall& call : job.process().threads[0].calls)
    if (call.op_class == OpClass::Copy) call.end += 200'000;  // of the time before the next launch
  StreamReplayInput recording = extract_streams(job.run, job.rank()).value();
  const double really = test::device_step_us(step, kSteps) / 1e3;
  EXPECT_NEAR(replay(recording).step_ms, really, really * 0.02);
  drop_synchronizations(recording, [](const HostEvent& event) { return event.op_class == OpClass::Copy; });
  EXPECT_NEAR(replay(recording).step_ms, 0.303, 0.303 * 0.03);
}

// A solver on an H200: a kernel begins 1.2 us after the one before it, a copy 4.4 us after a kernel, however
// early they were enqueued. Without these times its step of 52 us was replayed 11% too short.
TEST(StreamReplay, KeepsTheTimesBetweenOperationsThatWereEnqueuedInTime) {
  std::vector<Action> step = {{.device_us = 16},  // after a copy, which it never waits for in the recording

                              {.device_us = 13, .behind_us = 1.2},
                              {.device_us = 1, .behind_us = 1.2}};
  const Action copy{.op_class = OpClass::Copy,
                    .device_us = 1.6,
                    .waits = true,
                    .kind = trace::RecordKind::CopyD2H,
                    .bytes = 4,
                    .behind_us = 4.4};
  std::vector<Action> checked = step;
  checked.push_back(copy);
  expect_replay(checked);
  expect_replay(step);
  StreamReplayInput recording = record(checked);
  make_asynchronous(
      recording, [](const HostEvent& event) { return event.op_class == OpClass::Copy; }, 0, {}, 5e3);
  checked.back().waits = false;
  const double really = test::device_step_us(checked, kSteps) / 1e3;
  EXPECT_NEAR(replay(recording).step_ms, really, really * 0.02);
}

TEST(StreamReplay, ReproducesRandomSteps) {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    std::mt19937 random(seed);
    std::vector<Action> step;
    for (size_t i = 0; i < 5 + random() % 20; ++i) {
      Action action{.gap_us = double(random() % 60), .cost_us = 2 + double(random() % 6)};
      action.device_us = 1 + double(random() % 150);
      if (random() % 8 == 0) action = kSync;
      step.push_back(action);
    }
    step.push_back({.device_us = 20});
    double really = test::device_step_us(step, kSteps) / 1e3;
    EXPECT_NEAR(replay(record(step)).step_ms, really, really * 0.03) << "seed " << seed;
  }
}

TEST(StreamReplay, LetsTheHostRunAheadWithoutItsSynchronisation) {
  std::vector<Action> step = {{.gap_us = 200, .device_us = 300}, kSync};
  StreamReplayInput recording = record(step);
  drop_synchronizations(recording, [](const HostEvent& event) { return event.op_class == OpClass::Sync; });
  step.pop_back();
  double really = test::device_step_us(step, kSteps) / 1e3;
  EXPECT_NEAR(replay(recording).step_ms, really, really * 0.02);
}

TEST(StreamReplay, RemovesLaunchesButKeepsTheScriptsOwnWork) {
  std::vector<Action> step(50, Action{.gap_us = 8, .cost_us = 4, .device_us = 3});
  step[0].gap_us = 1000;  // not dispatch: the script computes
  StreamReplayInput recording = record(step);
  capture_launches(recording, {.longest_gap_ns = 100e3, .recurring_share = 0.5, .kernel_gap_ns = 1e3});
  double ms = replay(recording).step_ms;
  EXPECT_LT(ms, 1.3);
  EXPECT_GT(ms, 1.0);
}

TEST(StreamReplay, KeepsWhatPreparingAGraphTakes) {
  const std::vector<Action> step(50, Action{.gap_us = 8, .cost_us = 4, .device_us = 3});
  StreamReplayInput recording = record(step);
  // The step's first launch stays: 12 us. Then 10 launches of 12 us, and a quarter of 49.
  capture_launches(
      recording, {.longest_gap_ns = 100e3, .recurring_share = 0.5, .kept_launches = 10, .kept_share = 0.25});
  const double host_ms = 0.012 + 0.120 + 0.147;
  EXPECT_NEAR(replay(recording).step_ms, host_ms, 0.03 * host_ms);
}

TEST(StreamReplay, LeavesTheOptimizersLaunchesToTheHost) {
  constexpr size_t kLaunches = 50, kOfOptimizer = 10;
  StreamReplayInput recording =
      record(std::vector<Action>(kLaunches, Action{.gap_us = 8, .cost_us = 4, .device_us = 3}));
  for (size_t i = 0; i < recording.ops.size(); ++i)
    recording.ops[i].is_of_optimizer = i % kLaunches >= kLaunches - kOfOptimizer;
  for (StreamOp& op : recording.ops) op.duration_ns = 1e3;
  capture_launches(recording, {.longest_gap_ns = 100e3, .recurring_share = 0.5, .with_optimizer = false});
  const double host_ms = (1 + kOfOptimizer) * 0.012;
  EXPECT_NEAR(replay(recording).step_ms, host_ms, 0.03 * host_ms);
  capture_launches(recording, {.longest_gap_ns = 100e3, .recurring_share = 0.5});
  const double device_ms = kLaunches * 0.001;
  EXPECT_NEAR(replay(recording).step_ms, device_ms, 0.03 * device_ms);
}

// Capturing stops at each wait: another graph begins behind it, whose launch takes the host 12 us.
TEST(StreamReplay, CapturesNoWait) {
  const std::vector<Action> part(25, Action{.gap_us = 8, .cost_us = 4, .device_us = 3});
  const auto captured_ms = [&](std::initializer_list<std::vector<Action>> parts) {
    std::vector<Action> step;
    for (const std::vector<Action>& each : parts) step.insert(step.end(), each.begin(), each.end());
    StreamReplayInput recording = record(step);
    capture_launches(recording, {.longest_gap_ns = 100e3, .recurring_share = 0.5});
    return replay(recording).step_ms;
  };
  const double device_ms = 50 * 0.003, launch_ms = 0.012;
  EXPECT_NEAR(captured_ms({{kSync}, part, part}), device_ms, 0.004) << "before the graph";
  EXPECT_NEAR(captured_ms({part, part}), device_ms, 0.004);
  EXPECT_NEAR(captured_ms({part, {kSync}, part}), device_ms + launch_ms, 0.004);
  EXPECT_NEAR(captured_ms({part, {kSync}, {kSync}, part}), device_ms + launch_ms, 0.006);
}

// One operation on the batch in place of a loop that reads a count of each sample.
TEST(StreamReplay, MergedLaunchesWaitForNothingInBetweenAtBest) {
  const Action launch{.gap_us = 8, .cost_us = 4, .device_us = 3};
  Action read = kSync;
  read.gap_us = 10;
  std::vector<Action> step;
  for (size_t i = 0; i < 10; ++i) step.insert(step.end(), {launch, read});
  const auto merged_ms = [&](bool keeps_kernels) {
    StreamReplayInput recording = record(step);
    merge_launches(recording, [](const HostEvent&) { return true; },
                   {.longest_gap_ns = 100e3, .keeps_kernels = keeps_kernels});
    return replay(recording).step_ms;
  };
  const double launch_ms = 0.012, read_ms = 0.012;
  EXPECT_NEAR(merged_ms(false), launch_ms + read_ms, 0.004) << "the last read remains";
  EXPECT_GT(merged_ms(true), launch_ms + 9 * read_ms);
}

// The host loses its core for 300 us once a step, each time at another launch; its own work is at one.
TEST(StreamReplay, TellsALateHostFromTheScriptsOwnWorkByWhereItRecurs) {
  constexpr size_t kLaunches = 30, kOwn = 12;
  std::vector<Action> step(kLaunches, Action{.gap_us = 8, .cost_us = 4, .device_us = 3});
  step[kOwn].gap_us = 200;
  StreamReplayInput recording = record(step);
  for (HostEvent& event : recording.events) {
    const size_t place = size_t(&event - recording.events.data()) % kLaunches;
    const size_t late = 1 + event.step * 7 % (kLaunches - 1);
    if (place == late && place != kOwn) event.gap_ns += 300e3;
  }
  const double all_ms = 0.012 + 0.2;  // the graph's launch and the own work, beside which the kernels run
  const double late_ms = 0.3 * (kLaunches - 2) / (kLaunches - 1);
  StreamReplayInput expected = recording, slowest = recording;
  capture_launches(expected, {.longest_gap_ns = 100e3, .recurring_share = 0.5, .kernel_gap_ns = 0});
  capture_launches(slowest, {.longest_gap_ns = 100e3, .recurring_share = 0, .kernel_gap_ns = 0});
  EXPECT_NEAR(replay(expected).step_ms, all_ms, 0.05 * all_ms);
  EXPECT_NEAR(replay(slowest).step_ms, all_ms + late_ms, 0.05 * (all_ms + late_ms));
}

TEST(StreamReplay, ScalesKernelsByWholeWaves) {
  test::Job job =
      test::make_device_job({{.device_us = 100, .blocks = 10}, {.device_us = 100, .blocks = 200}}, kSteps);
  StreamReplayInput recording = *extract_streams(job.run, job.rank());
  scale_batch(recording, 2, job.run, job.process().devices[0], resident_blocks);
  EXPECT_DOUBLE_EQ(recording.ops[0].duration_ns, 100e3);  // 20 blocks still fit beside each other
  EXPECT_DOUBLE_EQ(recording.ops[1].duration_ns, 200e3);  // 400 blocks on 200 places: two waves
}

TEST(StreamReplay, ScalesKernelsOfUnknownShapeInProportion) {
  test::Job job = test::make_device_job({{.device_us = 100, .blocks = 0}}, kSteps);
  StreamReplayInput recording = *extract_streams(job.run, job.rank());
  scale_batch(recording, 4, job.run, job.process().devices[0], resident_blocks);
  EXPECT_DOUBLE_EQ(recording.ops[0].duration_ns, 400e3);
}

TEST(StreamReplay, ScalesWeightGradientsInProportion) {
  test::Job job = test::make_device_job({{.device_us = 100, .blocks = 10}}, kSteps);
  for (model::Kernel& kernel : job.run.kernels) kernel.name = "xmma_wgrad_implicit_gemm_f32f32";
  StreamReplayInput recording = *extract_streams(job.run, job.rank());
  scale_batch(recording, 4, job.run, job.process().devices[0], resident_blocks);
  EXPECT_DOUBLE_EQ(recording.ops[0].duration_ns, 400e3);
}

// Autograd runs backward on a thread of its own, and the training thread waits for it.
TEST(StreamReplay, TakesAWaitForAThreadThatLaunchesForNoWaitForData) {
  test::Job job =
      test::make_device_job(std::vector<Action>(20, {.gap_us = 8, .cost_us = 4, .device_us = 3}), 100);
  model::Process& process = job.process();
  process.threads.push_back(process.threads[0]);
  process.threads[0].calls.clear();
  for (const attribute::StepAttribution& step : job.rank().steps)
    process.threads[0].calls.push_back(
        {step.step.begin, step.step.end, 0, 0, model::kNone, 0, trace::OpClass::Wait, 0});
  for (model::DeviceOp& op : process.devices[0].operations) op.launch_thread = 1;
  auto recording = predict::extract_streams(job.run, job.rank());
  ASSERT_TRUE(recording);
  const double recorded_ms = predict::replay(*recording).step_ms;
  EXPECT_NEAR(recorded_ms, 0.24, 0.24 * 0.03);
  predict::capture_launches(*recording,
                            {.longest_gap_ns = 100e3, .recurring_share = 0.5, .kernel_gap_ns = 0});
  EXPECT_LT(predict::replay(*recording).step_ms, recorded_ms / 2);
}

// The launches of a host that is far ahead wait for the device, and no longer once it is faster.
TEST(StreamReplay, DoesNotTakeAFullQueueForTheHostsOwnTime) {
  test::Job job = test::make_device_job(std::vector<Action>(10, {.cost_us = 5, .device_us = 100}), 400);
  auto recording = extract_streams(job.run, job.rank());
  ASSERT_TRUE(recording);
  EXPECT_NEAR(replay(*recording).step_ms, 1, 0.02);
  for (StreamOp& op : recording->ops) op.duration_ns /= 4;
  EXPECT_NEAR(replay(*recording).step_ms, 0.25, 0.02);
}

// Two workers that began together, so that batches come in pairs: a long wait, then none. Each batch is used
// up by one kernel and a synchronisation.
class FedByTwoWorkers {
 public:
  explicit FedByTwoWorkers(double device_ms) : job(test::make_device_job({{.device_us = 1}, {}}, kSteps)) {
    model::Process& process = job.process();
    process.threads[0].calls.clear();
    process.devices[0].operations.resize(kSteps);
    process.loaders.resize(1);
    process.loaders[0].num_workers = kWorkers;
    model::LoaderEpoch& epoch = process.epochs.emplace_back();
    epoch.workers.resize(kWorkers);
    double free_ms[kWorkers] = {};
    for (size_t i = 0; i < kSteps; ++i) {
      const double begun = now_ms_, sent = i < kAhead ? 0 : taken_ms_[i - kAhead];
      const double fetch = std::max(free_ms[i % kWorkers], sent),
                   made = free_ms[i % kWorkers] = fetch + kFetchMs;
      const double taken = taken_ms_.emplace_back(std::max(now_ms_, made) + kTakeMs);
      now_ms_ = taken + device_ms;
      model::Batch& batch = epoch.batches.emplace_back();
      batch.index = uint32_t(i);
      batch.worker = i % kWorkers;
      batch.sent = at(sent);
      batch.fetch = {at(fetch), at(made)};
      batch.next = {at(begun), at(taken)};
      call(begun, taken, OpClass::LoaderNext);
      call(taken, taken + kLaunchMs, OpClass::Launch);
      call(taken + kLaunchMs, now_ms_, OpClass::Sync);
      model::DeviceOp& op = process.devices[0].operations[i];
      op.begin = at(taken + kLaunchMs);
      op.end = at(now_ms_);
      op.launch_call = uint32_t(process.threads[0].calls.size() - 2);
      steps_.push_back({at(begun), at(now_ms_)});
    }
    test::set_steps(job, steps_);
  }

  double step_ms() const { return now_ms_ / kSteps; }
  test::Job job;

 private:
  static constexpr size_t kSteps = 60, kWorkers = 2, kAhead = 4;
  static constexpr double kFetchMs = 92, kTakeMs = 0.1, kLaunchMs = 0.005;
  static model::Ns at(double ms) { return 1'000'000'000 + model::Ns(ms * 1e6); }
  void call(double begin, double end, OpClass op_class) {
    job.process().threads[0].calls.push_back({at(begin), at(end), 0, 0, model::kNone, 0, op_class, 0});
  }
  double now_ms_ = 0;
  std::vector<double> taken_ms_;
  std::vector<model::TimeSpan> steps_;
};

TEST(StreamReplay, KnowsThatEachWorkerMakesOneBatchAtATime) {
  FedByTwoWorkers job(41);
  auto recording = extract_streams(job.job.run, job.job.rank());
  ASSERT_TRUE(recording);
  EXPECT_NEAR(replay(*recording).step_ms, job.step_ms(), 0.01 * job.step_ms());
  const double factor = 0.25;
  for (StreamOp& op : recording->ops) op.duration_ns *= factor;
  const double faster_ms = FedByTwoWorkers(41 * factor).step_ms();  // no faster than two workers are
  EXPECT_NEAR(replay(*recording).step_ms, faster_ms, 0.02 * faster_ms);
  EXPECT_GT(faster_ms, 45);
}

TEST(StreamReplay, MeasuresStepsOfAHostThatRunsAheadWithTheirWork) {
  test::Job job = test::make_device_job({{.cost_us = 5, .device_us = 500}}, 100);
  attribute::StepAttribution& last = job.rank().steps.back();
  last.step.end = last.step.begin + 5000;  // as the host sees it
  test::set_shares(job, {});
  auto recording = predict::extract_streams(job.run, job.rank());
  ASSERT_TRUE(recording);
  EXPECT_LT(job.rank().mean_step_ms(), 0.01);
  EXPECT_NEAR(recording->measured_step_ms, 0.5, 0.01);
}

}  // namespace
}  // namespace gpuwatch::predict
