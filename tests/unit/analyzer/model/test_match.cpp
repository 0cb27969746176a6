// SPDX-License-Identifier: Apache-2.0
// Which calls must leave a device record, and what is counted of those that have none.
#include <gtest/gtest.h>

#include "run_builder.h"

namespace gpuwatch::model {
namespace {

using test::Slots;
using trace::OpClass;
using trace::RecordKind;

enum Direction : uint8_t {
  kHostToHost = 0,
  kToDevice = 1,
  kToHost = 2,
  kOnDevice = 3,
  kDefault = 4,
  kUnknown = 255
};

class WithoutRecord : public test::RunTest {
 protected:
  WithoutRecord() {
    trace_.process({});
    trace_.stream(1, 0, 0, 7);
  }
  uint32_t call(std::string_view name, OpClass op_class, uint8_t flags = 0) {
    const uint64_t begin = next();
    slots_.host(trace_.operation(name, op_class), begin, begin + 5, ++id_, 0, flags);
    return id_;
  }
  void launch_of(Slots& thread) {
    const uint64_t begin = next();
    thread.host(trace_.operation("cudaLaunchKernel", OpClass::Launch), begin, begin + 5, ++id_);
  }
  uint32_t move(std::string_view name, OpClass op_class, uint64_t bytes, uint8_t direction) {
    const uint64_t begin = next();
    slots_.host(trace_.operation(name, op_class), begin, begin + 5, ++id_, 0,
                trace::CallDetail(bytes, 0, 7, direction, 0, 0));
    return id_;
  }
  uint32_t copy(uint64_t bytes, Direction direction) {
    return move("cudaMemcpyAsync", OpClass::Copy, bytes, direction);
  }
  void record(RecordKind kind, uint32_t correlation) { slots_.device(kind, 1, 1000, 1010, correlation, 64); }
  CallsWithoutRecord count() {
    trace_.thread(0, 5, slots_);
    return build(trace_).without_record;
  }

  Slots slots_;

 private:
  uint64_t next() { return time_ += 10; }
  uint64_t time_ = 1000;
  uint32_t id_ = 0;
};

TEST_F(WithoutRecord, AreCountedByKind) {
  record(RecordKind::Kernel, call("cudaLaunchKernel", OpClass::Launch));
  call("cudaLaunchKernel", OpClass::Launch);
  record(RecordKind::GraphRun, call("cudaGraphLaunch", OpClass::GraphLaunch));
  call("cudaGraphLaunch", OpClass::GraphLaunch);
  record(RecordKind::CopyH2D, copy(64, kToDevice));
  for (const Direction direction : {kToDevice, kToHost, kOnDevice}) copy(64, direction);
  record(RecordKind::Memset, move("cudaMemsetAsync", OpClass::Memset, 64, kUnknown));
  move("cudaMemsetAsync", OpClass::Memset, 64, kUnknown);
  const CallsWithoutRecord missing = count();
  EXPECT_EQ(missing.launches, 1u);
  EXPECT_EQ(missing.graph_launches, 1u);
  EXPECT_EQ(missing.copies, 3u);
  EXPECT_EQ(missing.memsets, 1u);
  EXPECT_EQ(missing.unclear, 0u);
}

// A job that was killed before the first flush has none at all.
TEST_F(WithoutRecord, AreCountedWhereNoRecordCame) {
  call("cudaLaunchKernel", OpClass::Launch);
  EXPECT_EQ(count().launches, 1u);
}

TEST_F(WithoutRecord, WhatNeedsNoneIsNotMissing) {
  constexpr uint8_t kFailed = 8;
  record(RecordKind::Kernel, call("cudaLaunchKernel", OpClass::Launch));
  call("cudaLaunchKernel", OpClass::Launch, kFailed);
  copy(0, kToDevice);
  copy(64, kHostToHost);
  move("cudaMemsetAsync", OpClass::Memset, 0, kUnknown);
  move("cudaMemPrefetchAsync", OpClass::Copy, 0, kUnknown);
  call("cudaStreamBeginCapture", OpClass::Capture);
  call("cudaLaunchKernel", OpClass::Launch);
  copy(64, kToDevice);
  call("cudaStreamEndCapture", OpClass::Capture);
  const CallsWithoutRecord missing = count();
  EXPECT_EQ(missing.all(), 0u);
  EXPECT_EQ(missing.unclear, 0u);
}

// Of whichever thread: autograd's launches go into the graph that the training thread captures.
TEST_F(WithoutRecord, ACaptureIsTheProcesss) {
  Slots autograd;
  call("cudaStreamBeginCapture", OpClass::Capture);
  launch_of(autograd);
  call("cudaStreamEndCapture", OpClass::Capture);
  launch_of(autograd);
  trace_.thread(0, 6, autograd);
  EXPECT_EQ(count().launches, 1u);
}

// Killed meanwhile, or ended where nobody saw it.
TEST_F(WithoutRecord, ACaptureWithoutAnEndIsNone) {
  call("cudaStreamBeginCapture", OpClass::Capture);
  call("cudaLaunchKernel", OpClass::Launch);
  EXPECT_EQ(count().launches, 1u);
}

TEST_F(WithoutRecord, WhatIsNotKnownToNeedOneIsCountedApart) {
  copy(64, kDefault);
  call("cuMemcpyHtoDAsync", OpClass::Copy);  // from a callback, without its arguments
  call("cuMemsetD8Async", OpClass::Memset);
  move("cudaMemcpyBatchAsync", OpClass::Copy, 0, kUnknown);
  const CallsWithoutRecord missing = count();
  EXPECT_EQ(missing.all(), 0u);
  EXPECT_EQ(missing.unclear, 4u);
}

}  // namespace
}  // namespace gpuwatch::model
