// SPDX-License-Identifier: Apache-2.0
// Calls that wait for the device without being synchronizations: what happens to them when the
// synchronization before them is gone. Schedules are computed without the replay.
#include <gtest/gtest.h>

#include "analyzer/predict/stream_replay.h"
#include "libinject/trace/layout.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::predict {
namespace {

using test::Action;
using trace::OpClass;

constexpr size_t kSteps = 100;
const Action kSync{.op_class = OpClass::Sync, .cost_us = 2, .waits = true};
const Action kFree{.op_class = OpClass::Free, .cost_us = 5, .waits = true};
const Action kWork{.gap_us = 300, .device_us = 500};

StreamReplayInput record(test::Job job) {
  auto recording = extract_streams(job.run, job.rank());
  EXPECT_TRUE(recording);
  return recording.value_or(StreamReplayInput{});
}

StreamReplayInput without_synchronizations(StreamReplayInput recording) {
  drop_synchronizations(recording, [](const HostEvent& event) { return event.op_class == OpClass::Sync; });
  return recording;
}

void expect_without_synchronization(const std::vector<Action>& step, const std::vector<Action>& fixed) {
  const double really_ms = test::device_step_us(fixed, kSteps) / 1e3;
  const StreamReplayInput recording = record(test::make_device_job(step, kSteps));
  EXPECT_NEAR(replay(recording).step_ms, test::device_step_us(step, kSteps) / 1e3, 0.02 * really_ms);
  EXPECT_NEAR(replay(without_synchronizations(recording)).step_ms, really_ms, 0.02 * really_ms);
}

// The synchronization has emptied the device before cudaFree, which waits for it all the same.
TEST(DeviceWaits, AFreeTakesThePlaceOfTheSynchronizationBeforeIt) {
  expect_without_synchronization({kWork, kSync, kFree}, {kWork, kFree});
}

TEST(DeviceWaits, AFreeInAPoolWaitsForNothing) {
  test::Job job = test::make_device_job({kWork, kSync, kFree}, kSteps);
  for (model::Operation& operation : job.run.operations)
    if (operation.op_class == OpClass::Free) operation.name = "cudaFreeAsync";
  Action free = kFree;
  free.waits = false;
  const double really_ms = test::device_step_us({kWork, free}, kSteps) / 1e3;
  EXPECT_NEAR(replay(without_synchronizations(record(job))).step_ms, really_ms, 0.02 * really_ms);
}

// Memory of a pool is freed by cudaFree, too, and then at once: seen where the device was busy.
TEST(DeviceWaits, AFreeThatWasSeenToGoOnWaitsNowhere) {
  Action free = kFree;
  free.waits = false;
  expect_without_synchronization({kWork, free, kSync, free}, {kWork, free, free});
}

// The driver stages a large pageable copy when its stream has come to it.
TEST(DeviceWaits, APageableCopyTakesThePlaceOfTheSynchronizationBeforeIt) {
  const Action copy{.op_class = OpClass::Copy,
                    .cost_us = 100,
                    .device_us = 200,
                    .kind = trace::RecordKind::CopyH2D,
                    .pageable = true,
                    .bytes = 1 << 20,
                    .stages = true};
  expect_without_synchronization({kWork, kSync, copy}, {kWork, copy});
  Action small = copy;
  small.bytes = 4096;
  small.stages = false;
  expect_without_synchronization({kWork, kSync, small}, {kWork, small});
}

// A copy into pageable memory: after the device is done, the host still takes the bytes out of the buffer.
TEST(DeviceWaits, APageableCopyToTheHostIsTakenOutOfItsBuffer) {
  test::Job job = test::make_device_job({kWork,
                                         {.op_class = OpClass::Copy,
                                          .device_us = 200,
                                          .waits = true,
                                          .kind = trace::RecordKind::CopyD2H,
                                          .bytes = 4 << 20},
                                         {.op_class = OpClass::Event, .gap_us = 400, .cost_us = 1}},
                                        kSteps);
  const double recorded_ms = replay(record(job)).step_ms;
  for (model::HostCall& call : job.process().threads[0].calls)
    if (call.op_class == OpClass::Copy) call.end += 300'000;  // of the 400 us until the next call
  for (model::DeviceOp& op : job.process().devices[0].operations)
    if (op.kind == trace::RecordKind::CopyD2H) op.flags = trace::kDestinationPageable;
  EXPECT_NEAR(replay(record(job)).step_ms, recorded_ms, 0.01 * recorded_ms);
}

}  // namespace
}  // namespace gpuwatch::predict
