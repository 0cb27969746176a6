// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>

#include "analyzer/model/records.h"
#include "run_builder.h"

namespace gpuwatch::model {
namespace {

using test::Slots;
using trace::OpClass;

class RecordsTest : public test::RunTest {
 protected:
  RecordsTest() { trace_.process({}); }
};

TEST_F(RecordsTest, CallsAreSortedOuterBeforeInner) {
  const auto read = trace_.operation("read", OpClass::Read),
             next = trace_.operation("next", OpClass::LoaderNext);
  Slots slots;  // as recorded: by end
  slots.host(read, 1010, 1020)
      .host(read, 1030, 1040)
      .host(next, 1000, 1050)
      .host(next, 1060, 1100)
      .host(read, 1060, 1110);
  trace_.thread(0, 5, slots);
  const auto run = build(trace_);
  std::vector<std::pair<Ns, Ns>> spans;
  for (const auto& call : run.processes[0].threads[0].calls) spans.push_back({call.begin, call.end});
  EXPECT_EQ(spans, (std::vector<std::pair<Ns, Ns>>{
                       {1000, 1050}, {1010, 1020}, {1030, 1040}, {1060, 1110}, {1060, 1100}}));
  EXPECT_EQ(run.events, 5u);
}

TEST_F(RecordsTest, DetailsByClass) {
  const auto copy = trace_.operation("cudaMemcpyAsync", OpClass::Copy),
             fetch = trace_.operation("fetch", OpClass::Fetch);
  const auto open = trace_.operation("open64", OpClass::Open);
  const auto path = trace_.text("/data/1.jpg");
  Slots slots;
  slots.host(copy, 1000, 1010, 42, 0, trace::CallDetail(1 << 20, 0xabc, 7, 1, 0x13, 0));
  slots.host(fetch, 2000, 2900, 1, 0, trace::CpuDetail(700, 50, 2, 4));
  slots.host(open, 3000, 3010, 0, 0, trace::IoDetail(0, 0xdef, path, 0xef53));
  trace_.thread(0, 5, slots);
  const auto run = build(trace_);
  const auto& thread = run.processes[0].threads[0];
  EXPECT_EQ(thread.call_details.at(thread.calls[0].detail).bytes(), 1u << 20);
  EXPECT_EQ(thread.call_details.at(thread.calls[0].detail).caller(), 0xabcu);
  EXPECT_EQ(thread.cpu_details.at(thread.calls[1].detail).cpu_ns(), 700u);
  EXPECT_EQ(run.texts.at(thread.io_details.at(thread.calls[2].detail).path()), "/data/1.jpg");
  EXPECT_EQ(thread.calls.size(), 3u);
}

// Only a fetch's record has counts in a second detail. A damaged one of a range wrote them beyond the end of
// the counts of the fetch before it.
TEST_F(RecordsTest, ASecondDetailOfARangeIsNoFetchsCounts) {
  const auto fetch = trace_.operation("fetch", OpClass::Fetch),
             range = trace_.operation("range", OpClass::Range);
  const trace::Slot filler(trace::RecordKind::Host, 0, 0, 7, 7, 7, 7);
  Slots slots;
  slots.host(fetch, 1000, 1010);  // without any detail
  slots.raw(trace::Slot(trace::RecordKind::Host, 2, range, 5, 1020, 0, 0)).raw(filler).raw(filler);
  slots.host(fetch, 2000, 2900, 1, 0, trace::CpuDetail(700, 50, 2, 4));
  slots.raw(trace::Slot(trace::RecordKind::Host, 2, range, 5, 3000, 0, 0)).raw(filler).raw(filler);
  trace_.thread(0, 5, slots);
  const auto run = build(trace_);
  const Thread& thread = run.processes[0].threads[0];
  ASSERT_EQ(thread.calls.size(), 2u);
  EXPECT_EQ(thread.ranges.size(), 2u);
  for (const HostCall& call : thread.calls) EXPECT_EQ(io_counts_of(thread, call), nullptr);
}

// Each is a row of the report with all steps: a damaged trace of 2 MB named 60 000.
TEST_F(RecordsTest, StreamsOfTooManyDevicesBelongToTheFirst) {
  Slots slots;
  for (uint16_t i = 1; i < 2000; ++i) {
    trace_.stream(i, 0, i, 7);
    slots.device(trace::RecordKind::Kernel, i, 1000u + i, 1001u + i, i, 0);
  }
  trace_.thread(0, 5, slots);
  const auto run = build(trace_);
  EXPECT_EQ(run.processes[0].devices.size(), kMaxDevices);
  EXPECT_EQ(run.processes[0].devices[0].operations.size(), 1999 - (kMaxDevices - 1));
}

// Until 1.2 the event stood in CallDetail.bytes, where EventDetail has it.
TEST_F(RecordsTest, EventsOfEarlierTracesAreRead) {
  const auto record = trace_.operation("cudaEventRecord", OpClass::Event),
             wait = trace_.operation("cudaStreamWaitEvent", OpClass::StreamWait),
             sync = trace_.operation("cudaEventSynchronize", OpClass::Sync);
  constexpr uint64_t kEvent = 0x7f12'3456'7890;
  Slots slots;
  slots.host(record, 1000, 1010, 1, 7, trace::CallDetail(kEvent, 0xa, 7, 255, 0, 0));
  slots.host(wait, 2000, 2010, 2, 8, trace::EventDetail(kEvent, 0xb, 8, 0));
  slots.host(sync, 3000, 3010, 3, 0, trace::EventDetail(kEvent, 0xc, 0, 0));
  trace_.thread(0, 5, slots);
  const auto run = build(trace_);
  const auto& thread = run.processes[0].threads[0];
  ASSERT_EQ(thread.calls.size(), 3u);
  for (const auto& call : thread.calls) {
    ASSERT_NE(event_detail_of(thread, call), nullptr);
    EXPECT_EQ(event_detail_of(thread, call)->event(), kEvent);
    EXPECT_EQ(call_detail_of(thread, call), nullptr);
  }
  EXPECT_EQ(stream_of(thread, thread.calls[0]), 7u);
  EXPECT_EQ(stream_of(thread, thread.calls[1]), 8u);
  EXPECT_EQ(caller_of(thread, thread.calls[2]), 0xcu);
}

TEST_F(RecordsTest, LongSpansKeepWhatTheyHold) {
  const auto read = trace_.operation("read", OpClass::Read),
             next = trace_.operation("next", OpClass::LoaderNext);
  const uint64_t long_ns = 10'000'000'777;  // more than 32 bits hold; kept as a multiple of 1024
  Slots slots;
  slots.host(read, 2000, 1000 + long_ns).host(next, 1000, 1000 + long_ns);
  slots.host(read, 20'000'000'000, 20'000'000'000 + 100);
  trace_.thread(0, 5, slots);
  const auto run = build(trace_);
  const auto& calls = run.processes[0].threads[0].calls;
  EXPECT_NEAR(calls[0].end, static_cast<Ns>(1000 + long_ns), 1024);
  EXPECT_LE(calls[1].end, calls[0].end) << "an inner call does not outlast its outer one";
  EXPECT_EQ(calls[2].end - calls[2].begin, 100);
}

TEST_F(RecordsTest, AThreadsChunksAreJoinedInSequence) {
  const auto read = trace_.operation("read", OpClass::Read);
  Slots slots;
  for (uint64_t i = 0; i < 1000; ++i)
    slots.host(read, 1000 + 10 * i, 1005 + 10 * i, static_cast<uint32_t>(i));
  trace_.thread(0, 5, slots);
  const auto run = build(trace_);
  ASSERT_EQ(run.processes[0].threads.size(), 1u);
  const auto& calls = run.processes[0].threads[0].calls;
  ASSERT_EQ(calls.size(), 1000u);
  for (uint32_t i = 0; i < 1000; ++i) ASSERT_EQ(calls[i].correlation_or_object, i);
}

TEST_F(RecordsTest, OpenCallsOfTheLastChunkSayWhatAThreadWaitsIn) {
  const auto next = trace_.operation("next", OpClass::LoaderNext),
             poll = trace_.operation("poll", OpClass::Poll);
  const std::array<trace::OpenCall, 4> early{trace::OpenCall(900, poll, 0, 0)};
  const std::array<trace::OpenCall, 4> late{trace::OpenCall(5000, next, 0, 3),
                                            trace::OpenCall(5001, poll, 0, 0)};
  trace_.chunk(0, 5, 0, Slots().host(poll, 1000, 1010), trace::OpenCalls(1, 0, early));
  trace_.chunk(0, 5, 1, Slots(), trace::OpenCalls(2, 0, late));
  trace_.chunk(0, 6, 0, Slots().host(poll, 1000, 1010), trace::OpenCalls(0, 0, late));
  trace_.chunk(0, 7, 0, Slots(), trace::OpenCalls(4'000'000, 0, late));  // deeper than what is kept
  const auto run = build(trace_);
  const auto& threads = run.processes[0].threads;
  ASSERT_EQ(threads[0].open_calls.size(), 2u);
  EXPECT_EQ(run.operations[threads[0].open_calls[0].operation].name, "next");
  EXPECT_EQ(threads[0].open_calls[0].since, 5000);
  EXPECT_EQ(threads[0].open_calls[0].object, 3u);
  EXPECT_TRUE(threads[1].open_calls.empty());
  EXPECT_EQ(threads[2].open_calls.size(), 2u);
  EXPECT_EQ(run.processes[0].end_state, EndState::kKilledOrRunning);
}

TEST_F(RecordsTest, ADetailBeyondThePublishedLengthIsDamage) {
  const auto fetch = trace_.operation("fetch", OpClass::Fetch);
  Slots slots;
  slots.host(fetch, 1000, 1010).raw({trace::RecordKind::Host, 2, fetch, 5, 2000, 0, 0});
  trace_.chunk(0, 5, 0, slots);
  const auto run = build(trace_);
  EXPECT_EQ(run.processes[0].threads[0].calls.size(), 1u);
  EXPECT_PRED2(test::only_says, run.damage, "record of thread 5");
}

TEST_F(RecordsTest, AnUnknownKindOfRecordEndsItsChunk) {
  const auto fetch = trace_.operation("fetch", OpClass::Fetch);
  Slots slots;
  slots.host(fetch, 1000, 1010)
      .raw({static_cast<trace::RecordKind>(200), 0, fetch, 5, 2000, 0, 0})
      .host(fetch, 3000, 3010);
  trace_.chunk(0, 5, 0, slots);
  trace_.chunk(0, 5, 1, Slots().host(fetch, 4000, 4010));
  const auto run = build(trace_);
  EXPECT_EQ(run.processes[0].threads[0].calls.size(), 2u);
  EXPECT_EQ(run.damage.size(), 1u);
}

TEST_F(RecordsTest, HostileTimesDoNotOverflow) {
  const auto read = trace_.operation("read", OpClass::Read);
  Slots slots;
  slots.raw({trace::RecordKind::Host, trace::kLongSpan, read, UINT32_MAX, UINT64_MAX - 5, 0, 0});
  slots.raw({trace::RecordKind::Kernel, trace::kLongSpan, 1, UINT32_MAX, UINT64_MAX - 5, 0, 0});
  slots.raw({trace::RecordKind::Kernel, 0, 1, 0, 0, 0, 0});
  trace_.chunk(0, 5, 0, slots);
  const auto run = build(trace_);
  const auto& call = run.processes[0].threads[0].calls[0];
  EXPECT_GE(call.end, call.begin);
  EXPECT_LT(run.processes[0].devices.at(0).operations.back().end, Ns{1} << 60);
}

TEST_F(RecordsTest, DeviceOperationsMeetTheirLaunches) {
  const auto launch = trace_.operation("cudaLaunchKernel", OpClass::Launch);
  const auto copy = trace_.operation("cudaMemcpyAsync", OpClass::Copy);
  const auto gemm = trace_.kernel("gemm", 64),
             nccl = trace_.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)");
  trace_.stream(4, 0, 0, 7);
  trace_.stream(5, 0, 1, 8);
  for (Ns t = 0; t <= 4; ++t)
    trace_.clock(0, t * 1'000'000'000, t * 1'000'000'000, 0, 50'000'000'000 + t * 1'000'000'000);
  const uint64_t device = 50'000'000'000;
  Slots host, activity;
  host.host(copy, 1000, 1010, 11).host(launch, 2000, 2005, 12).host(launch, 3000, 3005, 13);
  // Delivered out of order, by another thread, as CUPTI does.
  activity.device(trace::RecordKind::Kernel, 5, device + 3100, device + 3200, 13, nccl);
  activity.device(trace::RecordKind::Kernel, 4, device + 2100, device + 2200, 12, gemm);
  activity.device(trace::RecordKind::CopyH2D, 4, device + 1100, device + 1200, 11, 3, trace::kScaledBytes);
  activity.device(trace::RecordKind::Kernel, 4, device + 4100, device + 4200, 99,
                  gemm);  // launched by nobody we saw
  activity.device(trace::RecordKind::DeviceSync, 4, device + 4100, device + 4300, 0, 0);
  trace_.thread(0, 100, host);
  trace_.thread(0, 101, activity);
  const auto run = build(trace_);
  const auto& p = run.processes[0];
  ASSERT_EQ(p.devices.size(), 2u);
  const auto& ops = p.devices[0].operations;
  ASSERT_EQ(ops.size(), 3u);
  EXPECT_EQ(ops[0].kind, trace::RecordKind::CopyH2D);
  EXPECT_EQ(ops[0].bytes, 3u << 10);
  EXPECT_EQ(ops[0].begin, 1100);
  EXPECT_EQ(p.threads[ops[0].launch_thread].calls[ops[0].launch_call].begin, 1000);
  EXPECT_EQ(p.threads[ops[1].launch_thread].calls[ops[1].launch_call].begin, 2000);
  EXPECT_EQ(run.kernels[ops[1].kernel].grid[0], 64u);
  EXPECT_EQ(ops[2].launch_call, kNone);
  EXPECT_TRUE(run.kernels[p.devices[1].operations[0].kernel].is_communication);
  EXPECT_EQ(run.kernels_total, 3u);
  EXPECT_EQ(run.kernels_matched, 2u);
  EXPECT_LE(run.clock_error_ns, 20);
}

TEST(OrderCalls, EqualsAnIndependentSort) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<HostCall> calls(random() % 50);
    for (auto& call : calls) {
      call = {};
      call.begin = random() % 40;
      call.end = call.begin + random() % 10;
      call.op_class = OpClass::Read;
    }
    order_calls(calls);
    for (size_t i = 1; i < calls.size(); ++i) {
      ASSERT_LE(calls[i - 1].begin, calls[i].begin);
      const bool starts_together = calls[i - 1].begin == calls[i].begin;
      ASSERT_TRUE(!starts_together || calls[i - 1].end >= calls[i].end);
    }
  }
}

}  // namespace
}  // namespace gpuwatch::model
