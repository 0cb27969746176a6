// SPDX-License-Identifier: Apache-2.0
// What holds of any change of any timeline: none that takes something away makes it longer, several together
// gain at least what each gains alone, and nothing passes the device's critical path.
#include <gtest/gtest.h>

#include <random>

#include "analyzer/predict/stream_replay.h"

namespace gpuwatch::predict {
namespace {

using trace::OpClass;

constexpr double kRounding = 1 + 1e-9;
constexpr uint32_t kStreams = 3;

class RandomTimeline {
 public:
  explicit RandomTimeline(unsigned seed) : random_(seed) {
    recording.steps = 5 + random_() % 20;
    for (uint32_t step = 0; step < recording.steps; ++step)
      for (size_t i = 3 + random_() % 12; i > 0; --i) add(step);
    if (recording.ops.empty()) enqueue(OpClass::Launch, uint32_t(recording.steps) - 1);
  }

  StreamReplayInput recording;

 private:
  double up_to(double most) { return std::uniform_real_distribution<double>(0, most)(random_); }

  void add(uint32_t step) {
    switch (random_() % 8) {
      case 0:
        return wait(OpClass::Sync, step);
      case 1:
        return wait(OpClass::Free, step);
      case 2:
        enqueue(OpClass::Copy, step);
        recording.events.back().role = HostRole::kBlockOnOwn;
        return;
      case 3:
        enqueue(OpClass::Copy, step);
        recording.events.back().waits_for_stream = true;
        return;
      default:
        return enqueue(random_() % 4 ? OpClass::Launch : OpClass::Copy, step);
    }
  }

  HostEvent& event(OpClass op_class, uint32_t step) {
    HostEvent& added = recording.events.emplace_back();
    added.gap_ns = up_to(random_() % 5 ? 50e3 : 900e3);
    added.cost_ns = 1e3 + up_to(10e3);  // as much as a what-if leaves
    added.first_op = uint32_t(recording.ops.size());
    added.op_class = op_class;
    added.step = step;
    return added;
  }

  void wait(OpClass op_class, uint32_t step) {
    HostEvent& added = event(op_class, step);
    added.role = HostRole::kSync;
    if (op_class == OpClass::Sync && random_() % 2) added.stream = random_() % kStreams;
  }

  void enqueue(OpClass op_class, uint32_t step) {
    HostEvent& added = event(op_class, step);
    added.role = HostRole::kEnqueue;
    added.op_count = 1;
    StreamOp op;
    op.duration_ns = up_to(random_() % 3 ? 100e3 : 800e3);
    op.latency_ns = up_to(6e3);
    op.stream = random_() % kStreams;
    if (!recording.ops.empty() && random_() % 4 == 0) op.waits_for = random_() % recording.ops.size();
    recording.ops.push_back(op);
  }

  std::mt19937 random_;
};

using Change = void (*)(StreamReplayInput&);

const Change kChanges[] = {
    [](StreamReplayInput& r) {
      drop_synchronizations(r, [](const HostEvent& e) { return e.op_class == OpClass::Sync; });
    },
    [](StreamReplayInput& r) {
      drop_calls(r, [](const HostEvent& e) { return e.op_class == OpClass::Free; });
    },
    [](StreamReplayInput& r) {
      make_asynchronous(
          r, [](const HostEvent& e) { return e.op_class == OpClass::Copy; }, 0, {}, 5e3);
    },
    [](StreamReplayInput& r) {
      move_to_own_stream(r, [](const HostEvent& e) { return e.op_class == OpClass::Copy; });
    },
    [](StreamReplayInput& r) {
      for (HostEvent& event : r.events) event.gap_ns = std::min(event.gap_ns, 100e3);
    },
};

double step_ms(StreamReplayInput recording, std::initializer_list<Change> changes) {
  for (const Change change : changes) change(recording);
  return replay(recording).step_ms;
}

TEST(StreamChanges, NeverMakeAStepLonger) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    const StreamReplayInput recording = RandomTimeline(seed).recording;
    const double before_ms = replay(recording).step_ms;
    for (const Change change : kChanges)
      EXPECT_LE(step_ms(recording, {change}), before_ms * kRounding)
          << "seed " << seed << ", change " << (&change - kChanges);
  }
}

TEST(StreamChanges, TogetherGainAtLeastWhatEachGainsAlone) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    const StreamReplayInput recording = RandomTimeline(seed).recording;
    double together_ms = replay(recording).step_ms, best_ms = together_ms;
    StreamReplayInput changed = recording;
    for (const Change change : kChanges) {
      change(changed);
      best_ms = std::min(best_ms, step_ms(recording, {change}));
      together_ms = replay(changed).step_ms;
      EXPECT_LE(together_ms, best_ms * kRounding) << "seed " << seed;
    }
  }
}

TEST(StreamChanges, NeverPassTheDevicesCriticalPath) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    StreamReplayInput recording = RandomTimeline(seed).recording;
    const double path_ms = critical_path_ms(recording);
    double busiest_ns[kStreams] = {};
    for (const StreamOp& op : recording.ops) busiest_ns[op.stream] += op.duration_ns;
    const double busiest_ms =
        *std::max_element(std::begin(busiest_ns), std::end(busiest_ns)) / double(recording.steps) / 1e6;
    EXPECT_GE(path_ms * kRounding, busiest_ms) << "seed " << seed;
    for (const size_t change : {0, 1, 2, 4}) kChanges[change](recording);
    EXPECT_GE(replay(recording).step_ms * kRounding, path_ms) << "seed " << seed;
    kChanges[3](recording);  // now the copies no longer wait for what is before them
    EXPECT_GE(replay(recording).step_ms * kRounding, critical_path_ms(recording)) << "seed " << seed;
  }
}

// 300 and 400 us beside each other, then 200 us that need both: 600, whatever the host does.
TEST(CriticalPath, FollowsStreamsAndEvents) {
  StreamReplayInput recording;
  recording.steps = 1;
  recording.ops = {{.duration_ns = 300e3, .stream = 0},
                   {.duration_ns = 400e3, .stream = 1},
                   {.duration_ns = 200e3, .stream = 0, .waits_for = 1}};
  for (uint32_t i = 0; i < 3; ++i) {
    HostEvent& event = recording.events.emplace_back();
    event.gap_ns = 1e6;
    event.first_op = i;
    event.op_count = 1;
    event.role = HostRole::kEnqueue;
  }
  EXPECT_DOUBLE_EQ(critical_path_ms(recording), 0.6);
  EXPECT_GT(replay(recording).step_ms, 3);
}

TEST(CriticalPath, OfNothingIsNothing) {
  EXPECT_EQ(critical_path_ms({}), 0);
}

}  // namespace
}  // namespace gpuwatch::predict
