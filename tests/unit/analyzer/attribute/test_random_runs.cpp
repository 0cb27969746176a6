// SPDX-License-Identifier: Apache-2.0
// Whatever a trace says, sensible or not: slices tile each recorded step, categories add up to it exactly,
// and device-busy time is what the device's operations cover.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "run_builder.h"

namespace gpuwatch {
namespace {

using attribute::Category;
using attribute::RankAttribution;
using model::Ns;
using model::TimeSpan;
using trace::OpClass;
using trace::RecordKind;

class RandomRun : public test::RunBuilder {
 public:
  explicit RandomRun(unsigned seed) : random_(seed) {
    const uint32_t threads = 1 + below(4);
    for (uint32_t i = 0; i < threads; ++i) thread("t" + std::to_string(i));
    if (below(8) == 0) process().training_thread = model::kNone;
    if (below(3) == 0) process().facts["python"] = "3.11";
    run.clock_error_ns = below(20);
    if (below(2)) add_loader();
    for (uint32_t i = below(40); i > 0; --i) add_call(below(threads));
    if (below(4)) {
      for (uint32_t i = below(20); i > 0; --i) add_device_work(below(threads));
    }
  }

  uint32_t below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }
  Ns time() { return static_cast<Ns>(below(1200)) - 100; }
  TimeSpan interval(uint32_t longest) {
    const Ns begin = time();
    return {begin, begin + below(longest)};
  }

  std::vector<Ns> steps() {
    std::vector<Ns> ends;
    for (Ns end = 0; end < 800;) ends.push_back(end += 1 + below(300));
    return ends;
  }

 private:
  void add_call(uint32_t thread) {
    const auto& classes = trace::EnumValuesOpClass();
    const OpClass op_class = classes[below(std::size(classes))];
    const TimeSpan when = interval(300);
    if (feeds(op_class)) {
      const RecordKind kind = below(2) ? RecordKind::CopyH2D : RecordKind::CopyD2H;
      cuda(thread, op_class, when.begin, when.end, {kind, below(1 << 20), below(2) == 1, below(3)});
    } else if (op_class == OpClass::OptimizerStep) {
      cpu(thread, op_class, when.begin, when.end, below(400));
    } else {
      call(thread, op_class, when.begin, when.end, below(2) ? "cudaDeviceSynchronize" : "", below(3),
           below(9), below(5) == 0 ? 8 : 0);
    }
  }

  static bool feeds(OpClass op_class) {
    return op_class == OpClass::Launch || op_class == OpClass::Copy || op_class == OpClass::Sync;
  }

  void add_device_work(uint32_t thread) {
    const uint16_t stream = static_cast<uint16_t>(below(3));
    switch (below(3)) {
      case 0:
        return kernel(thread, interval(60), interval(80), stream, below(3) == 0);
      case 1:
        return copy(thread, interval(60), interval(80),
                    {RecordKind::CopyH2D, below(99999), below(2) == 1, below(3)}, stream);
      default:
        return device_op(RecordKind::Memset, interval(50), stream);
    }
  }

  void add_loader() {
    model::Loader loader;
    loader.thread = 0;
    loader.pin_memory = static_cast<int>(below(2));
    loader.in_order = static_cast<int>(below(2));
    process().loaders.push_back(loader);
    model::LoaderEpoch epoch;
    for (uint32_t i = below(4); i > 0; --i) epoch.workers.push_back({i, i, model::kNone, time()});
    for (uint32_t i = below(12); i > 0; --i) {
      model::Batch batch;
      batch.worker = below(5);
      batch.sent = below(3) ? time() : 0;
      if (below(4)) batch.fetch = interval(200);
      batch.fetch_blocked_ns = below(300);
      batch.fetch_run_delay_ns = below(300);
      batch.collate_ns = below(100);
      batch.received = below(3) ? time() : 0;
      batch.next = interval(200);
      call(0, OpClass::LoaderNext, batch.next.begin, batch.next.end, "", 0, 0);
      epoch.batches.push_back(batch);
    }
    process().epochs.push_back(epoch);
  }

  std::mt19937 random_;
};

Ns covered(const std::vector<model::DeviceOp>& operations, TimeSpan window) {
  Ns sum = 0;
  for (Ns time = window.begin; time < window.end; ++time) {
    for (const model::DeviceOp& op : operations) {
      if (op.begin <= time && time < op.end) {
        ++sum;
        break;
      }
    }
  }
  return sum;
}

void expect_tiling(const RankAttribution& row) {
  auto slice = row.slices.begin();
  Ns sum_of_steps = 0;
  for (const attribute::StepAttribution& step : row.steps) {
    Ns time = step.step.begin, sum = 0;
    for (; slice != row.slices.end() && slice->begin < step.step.end; ++slice) {
      ASSERT_EQ(slice->begin, time);
      ASSERT_GT(slice->end, slice->begin);
      time = slice->end;
    }
    ASSERT_EQ(time, step.step.end);
    for (const Ns category_ns : step.times) {
      ASSERT_GE(category_ns, 0);
      sum += category_ns;
    }
    ASSERT_EQ(sum, step.step.end - step.step.begin);
    sum_of_steps += sum;
  }
  EXPECT_EQ(slice, row.slices.end());
  EXPECT_EQ(row.wall_ns, sum_of_steps);
}

TEST(RandomRuns, CategoriesAddUpToTheStep) {
  for (unsigned seed = 0; seed < 5000; ++seed) {
    SCOPED_TRACE(seed);
    RandomRun random(seed);
    const std::vector<Ns> ends = random.steps();
    const RankAttribution row = random.attribute(0, ends);
    expect_tiling(row);
    if (row.device_observed) {
      Ns busy = 0;
      for (const attribute::Slice& slice : row.slices) {
        // copy.h2d and copy.d2h also hold what a blocking copy makes the host refill: count the sweep's own.
        const bool is_sweep = slice.category == Category::Compute ||
                              slice.category == Category::CommUnsplit || slice.category == Category::CopyD2D;
        if (is_sweep) busy += slice.end - slice.begin;
      }
      EXPECT_LE(busy, covered(random.process().devices[0].operations, {0, ends.back()}));
    }
    if (::testing::Test::HasFatalFailure() || ::testing::Test::HasNonfatalFailure()) return;
  }
}

}  // namespace
}  // namespace gpuwatch
