// SPDX-License-Identifier: Apache-2.0
// The runtime stand-in's order and times, as far as a program can see them.
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "device_program.h"

namespace {

const FakeKernel kShort("short_50us");
const FakeKernel kOne("one_1ms");
const FakeKernel kTwo("two_2ms");
const FakeKernel kFive("five_5ms");
const FakeKernel kRuled("ruled_kernel");

TEST(Timeline, EventsMeasureConfiguredDurations) {
  TestStream stream;
  Event begin, end;
  Gate gate;
  ASSERT_CUDA(gate.hold(stream));
  begin.record(stream);
  for (int i = 0; i < 10; ++i) ASSERT_CUDA(kShort.launch(stream));
  end.record(stream);
  EXPECT_EQ(cudaErrorNotReady, cudaEventQuery(end));
  gate.open();
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_NEAR(500, elapsed_us(begin, end), kExactUs);
}

TEST(Timeline, ARuleOverridesTheNameAndCountsBlocks) {
  TestStream stream;
  Event begin, end;
  Gate gate;
  ASSERT_CUDA(gate.hold(stream));
  begin.record(stream);
  ASSERT_CUDA(kRuled.launch(stream, 10));
  end.record(stream);
  gate.open();
  ASSERT_CUDA(cudaEventSynchronize(end));
  EXPECT_NEAR(140, elapsed_us(begin, end), kExactUs);
}

TEST(Timeline, BothLaunchAbisRunTheSameKernel) {
  TestStream stream;
  cudaKernel_t handle = nullptr;
  Event begin, end;
  Gate gate;
  ASSERT_CUDA(__cudaGetKernel(&handle, kOne.function()));
  ASSERT_CUDA(gate.hold(stream));
  begin.record(stream);
  ASSERT_CUDA(__cudaLaunchKernel(handle, dim3(1), dim3(32), nullptr, 0, stream));
  end.record(stream);
  gate.open();
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_NEAR(1000, elapsed_us(begin, end), kExactUs);
}

TEST(Timeline, StreamsOverlap) {
  TestStream a, b;
  Event opened, a_end, b_end;
  Gate gate;
  ASSERT_CUDA(gate.hold(a));
  opened.record(a);
  ASSERT_CUDA(cudaStreamWaitEvent(b, opened, 0));
  ASSERT_CUDA(kTwo.launch(a));
  ASSERT_CUDA(kTwo.launch(b));
  a_end.record(a);
  b_end.record(b);
  gate.open();
  ASSERT_CUDA(cudaDeviceSynchronize());
  EXPECT_NEAR(0, elapsed_us(a_end, b_end), kExactUs);
  EXPECT_NEAR(2000, elapsed_us(opened, b_end), kExactUs);
}

TEST(Timeline, AnEventOrdersTwoStreams) {
  TestStream a, b;
  Event a_end, b_end;
  Gate gate;
  ASSERT_CUDA(gate.hold(a));
  ASSERT_CUDA(kTwo.launch(a));
  a_end.record(a);
  ASSERT_CUDA(cudaStreamWaitEvent(b, a_end, 0));
  ASSERT_CUDA(kOne.launch(b));
  b_end.record(b);
  gate.open();
  ASSERT_CUDA(cudaStreamSynchronize(b));
  EXPECT_NEAR(1000, elapsed_us(a_end, b_end), kExactUs);
}

TEST(Timeline, TheDefaultStreamWaitsForBlockingStreamsAndTheyForIt) {
  TestStream before(cudaStreamDefault), after(cudaStreamDefault), apart(cudaStreamNonBlocking);
  Event before_end, default_end, after_end;
  Gate gate;
  ASSERT_CUDA(gate.hold(before));
  ASSERT_CUDA(kOne.launch(before));
  before_end.record(before);
  ASSERT_CUDA(kOne.launch(nullptr));
  ASSERT_CUDA(kOne.launch(after));
  after_end.record(after);
  ASSERT_CUDA(kOne.launch(apart));
  EXPECT_CUDA(cudaStreamSynchronize(apart));  // returns although the gate is closed
  EXPECT_EQ(cudaErrorNotReady, cudaStreamQuery(after));
  gate.open();
  ASSERT_CUDA(cudaStreamSynchronize(after));
  EXPECT_NEAR(2000, elapsed_us(before_end, after_end), kExactUs);
}

TEST(Timeline, PerThreadDefaultStreamsAreApart) {
  unsigned long long legacy = 0, mine = 0, other = 0;
  ASSERT_CUDA(cudaStreamGetId(nullptr, &legacy));
  ASSERT_CUDA(cudaStreamGetId(cudaStreamPerThread, &mine));
  std::thread([&] { EXPECT_CUDA(cudaStreamGetId(cudaStreamPerThread, &other)); }).join();
  EXPECT_NE(legacy, mine);
  EXPECT_NE(mine, other);
}

TEST(Timeline, HostFunctionsRunInStreamOrder) {
  TestStream stream;
  std::atomic<bool> ran{false};
  Event end;
  ASSERT_CUDA(kOne.launch(stream));
  ASSERT_CUDA(cudaLaunchHostFunc(
      stream, [](void* flag) { *static_cast<std::atomic<bool>*>(flag) = true; }, &ran));
  ASSERT_CUDA(kOne.launch(stream));
  end.record(stream);
  ASSERT_CUDA(cudaEventSynchronize(end));
  EXPECT_TRUE(ran);
}

TEST(Timeline, AFullQueueHoldsTheLaunch) {
  TestStream stream;
  std::vector<Event> done(100);
  for (Event& event : done) {
    ASSERT_CUDA(kOne.launch(stream));
    event.record(stream);
  }
  // 64 fit (device.conf): when the hundredth was taken, the first thirty-six had ended.
  EXPECT_CUDA(cudaEventQuery(done[34]));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
}

TEST(Timeline, AGraphKeepsItsBranches) {
  TestStream origin, branch;
  Event fork, join, begin, end;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_CUDA(cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal));
  ASSERT_CUDA(kOne.launch(origin));
  fork.record(origin);
  ASSERT_CUDA(cudaStreamWaitEvent(branch, fork, 0));
  ASSERT_CUDA(kFive.launch(branch));
  ASSERT_CUDA(kTwo.launch(origin));
  join.record(branch);
  ASSERT_CUDA(cudaStreamWaitEvent(origin, join, 0));
  ASSERT_CUDA(kOne.launch(origin));
  ASSERT_CUDA(cudaStreamEndCapture(origin, &graph));
  size_t nodes = 0;
  ASSERT_CUDA(cudaGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_EQ(4u, nodes);
  ASSERT_CUDA(cudaGraphInstantiate(&exec, graph, 0));

  Gate gate;
  ASSERT_CUDA(gate.hold(origin));
  begin.record(origin);
  ASSERT_CUDA(cudaGraphLaunch(exec, origin));
  ASSERT_CUDA(cudaGraphLaunch(exec, origin));
  end.record(origin);
  gate.open();
  ASSERT_CUDA(cudaStreamSynchronize(origin));
  EXPECT_NEAR(2 * (1000 + 5000 + 1000), elapsed_us(begin, end), kExactUs);
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
  EXPECT_CUDA(cudaGraphDestroy(graph));
}

TEST(Timeline, SynchronisingACapturingStreamEndsTheCapture) {
  TestStream stream;
  cudaGraph_t graph = nullptr;
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  EXPECT_EQ(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(stream));
  EXPECT_EQ(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
  EXPECT_EQ(nullptr, graph);
  cudaGetLastError();
}

TEST(Errors, AreRememberedOnce) {
  TestStream stream;
  EXPECT_EQ(cudaErrorInvalidConfiguration,
            cudaLaunchKernel(kOne.function(), dim3(1), dim3(2048), nullptr, 0, stream));
  EXPECT_EQ(cudaErrorInvalidConfiguration, cudaPeekAtLastError());
  EXPECT_EQ(cudaErrorInvalidConfiguration, cudaGetLastError());
  EXPECT_EQ(cudaSuccess, cudaGetLastError());
  EXPECT_STREQ("cudaErrorInvalidConfiguration", cudaGetErrorName(cudaErrorInvalidConfiguration));
}

TEST(Errors, AnUnknownFunctionSaysItsName) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(cudaErrorNotSupported, cudaGraphDebugDotPrint(nullptr, "/dev/null", 0));
  EXPECT_EQ(cudaErrorNotSupported, cudaGraphDebugDotPrint(nullptr, "/dev/null", 0));
  EXPECT_EQ("[gpuwatch simulated device] unimplemented: cudaGraphDebugDotPrint\n",
            testing::internal::GetCapturedStderr());
}

TEST(Device, SaysThatItIsSimulated) {
  cudaDeviceProp properties;
  int count = 0;
  ASSERT_CUDA(cudaGetDeviceCount(&count));
  EXPECT_EQ(2, count);
  ASSERT_CUDA(cudaGetDeviceProperties(&properties, 0));
  EXPECT_STREQ("Simulated GPU", properties.name);
  EXPECT_EQ(cudaErrorInvalidDevice, cudaSetDevice(2));
  cudaGetLastError();
}

}  // namespace
