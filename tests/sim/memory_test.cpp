// SPDX-License-Identifier: Apache-2.0
// Copies: their data, their device time, and when they block the caller. Allocation.
#include <chrono>
#include <cstring>
#include <numeric>
#include <vector>

#include "device_program.h"

namespace {

const FakeKernel kOne("copies_1ms");
char g_symbol[256];
const bool g_symbol_registered =
    (__cudaRegisterVar(nullptr, g_symbol, nullptr, "g_symbol", 0, sizeof g_symbol, 0, 1), true);

std::vector<unsigned char> pattern(size_t size) {
  std::vector<unsigned char> bytes(size);
  std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(1));
  return bytes;
}

struct DeviceMemory {
  explicit DeviceMemory(size_t size) { EXPECT_CUDA(cudaMalloc(&pointer, size)); }
  ~DeviceMemory() { cudaFree(pointer); }
  void* pointer = nullptr;
};

struct PinnedMemory {
  explicit PinnedMemory(size_t size) { EXPECT_CUDA(cudaMallocHost(&pointer, size)); }
  ~PinnedMemory() { cudaFreeHost(pointer); }
  void* pointer = nullptr;
};

TEST(Copy, DataComesBack) {
  const auto sent = pattern(4096);
  std::vector<unsigned char> received(sent.size());
  DeviceMemory a(sent.size()), b(sent.size());
  ASSERT_CUDA(cudaMemcpy(a.pointer, sent.data(), sent.size(), cudaMemcpyHostToDevice));
  ASSERT_CUDA(cudaMemcpy(b.pointer, a.pointer, sent.size(), cudaMemcpyDeviceToDevice));
  ASSERT_CUDA(cudaMemset(b.pointer, 7, 16));
  ASSERT_CUDA(cudaMemcpy(received.data(), b.pointer, sent.size(), cudaMemcpyDefault));
  EXPECT_EQ(7, received[0]);
  EXPECT_EQ(7, received[15]);
  EXPECT_TRUE(std::equal(sent.begin() + 16, sent.end(), received.begin() + 16));
}

TEST(Copy, RowsLandAtTheirPitch) {
  const auto sent = pattern(8 * 10);
  std::vector<unsigned char> received(8 * 10);
  void* device = nullptr;
  size_t pitch = 0;
  ASSERT_CUDA(cudaMallocPitch(&device, &pitch, 10, 8));
  ASSERT_CUDA(cudaMemcpy2D(device, pitch, sent.data(), 10, 10, 8, cudaMemcpyHostToDevice));
  EXPECT_EQ(0, std::memcmp(static_cast<char*>(device) + 3 * pitch, sent.data() + 30, 10));
  ASSERT_CUDA(cudaMemcpy2D(received.data(), 10, device, pitch, 10, 8, cudaMemcpyDeviceToHost));
  EXPECT_EQ(sent, received);
  EXPECT_CUDA(cudaFree(device));
}

TEST(Copy, SymbolsHaveMemoryOfTheirOwn) {
  ASSERT_TRUE(g_symbol_registered);
  const int sent = 42;
  int received = 0;
  ASSERT_CUDA(cudaMemcpyToSymbol(g_symbol, &sent, sizeof sent, 8, cudaMemcpyHostToDevice));
  ASSERT_CUDA(cudaMemcpyFromSymbol(&received, g_symbol, sizeof received, 8, cudaMemcpyDeviceToHost));
  EXPECT_EQ(sent, received);
  EXPECT_EQ(cudaErrorInvalidValue,
            cudaMemcpyToSymbol(g_symbol, &sent, sizeof sent, 254, cudaMemcpyHostToDevice));
  cudaGetLastError();
}

TEST(Copy, PinnedTakesLatencyAndBytesOverBandwidth) {
  constexpr size_t kBytes = 10'000'000;  // 1 ms at 10 GB/s
  DeviceMemory device(kBytes);
  PinnedMemory host(kBytes);
  TestStream stream;
  Event begin, middle, end;
  Gate gate;
  ASSERT_CUDA(gate.hold(stream));
  begin.record(stream);
  ASSERT_CUDA(cudaMemcpyAsync(device.pointer, host.pointer, kBytes, cudaMemcpyHostToDevice, stream));
  middle.record(stream);
  ASSERT_CUDA(cudaMemcpyAsync(host.pointer, device.pointer, kBytes, cudaMemcpyDeviceToHost, stream));
  end.record(stream);
  gate.open();
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_NEAR(1002, elapsed_us(begin, middle), kExactUs);
  EXPECT_NEAR(1002, elapsed_us(middle, end), kExactUs);
}

TEST(Copy, OneEngineADirection) {
  constexpr size_t kBytes = 10'000'000;
  DeviceMemory device(kBytes);
  PinnedMemory host(kBytes);
  TestStream a, b, c;
  Event opened, b_end, c_end;
  Gate gate;
  ASSERT_CUDA(gate.hold(a));
  opened.record(a);
  ASSERT_CUDA(cudaStreamWaitEvent(b, opened, 0));
  ASSERT_CUDA(cudaStreamWaitEvent(c, opened, 0));
  ASSERT_CUDA(cudaMemcpyAsync(device.pointer, host.pointer, kBytes, cudaMemcpyHostToDevice, a));
  ASSERT_CUDA(cudaMemcpyAsync(device.pointer, host.pointer, kBytes, cudaMemcpyHostToDevice, b));
  ASSERT_CUDA(cudaMemcpyAsync(host.pointer, device.pointer, kBytes, cudaMemcpyDeviceToHost, c));
  b_end.record(b);
  c_end.record(c);
  gate.open();
  ASSERT_CUDA(cudaDeviceSynchronize());
  EXPECT_NEAR(2004, elapsed_us(opened, b_end), kExactUs);  // behind the first
  EXPECT_NEAR(1002, elapsed_us(opened, c_end), kExactUs);  // beside it
}

TEST(Copy, PageableHoldsTheCallerForItsStaging) {
  constexpr size_t kBytes = 10'000'000;  // 2 ms at 5 GB/s
  std::vector<char> host(kBytes);
  DeviceMemory device(kBytes);
  TestStream stream;
  ASSERT_CUDA(kOne.launch(stream));
  Event before;
  before.record(stream);
  const auto called = std::chrono::steady_clock::now();
  ASSERT_CUDA(cudaMemcpyAsync(device.pointer, host.data(), kBytes, cudaMemcpyHostToDevice, stream));
  EXPECT_CUDA(cudaEventQuery(before));  // it waited for what was in the stream
  EXPECT_GE(std::chrono::steady_clock::now() - called, std::chrono::microseconds(1900));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
}

TEST(Copy, AContradictoryKindIsRefused) {
  char host[16] = "", other[16] = "";
  EXPECT_EQ(cudaErrorInvalidValue, cudaMemcpy(host, other, sizeof host, cudaMemcpyHostToDevice));
  cudaGetLastError();
}

TEST(Memory, KindsAreTold) {
  char pageable[8];
  DeviceMemory device(64);
  PinnedMemory pinned(64);
  cudaPointerAttributes a;
  ASSERT_CUDA(cudaPointerGetAttributes(&a, pageable));
  EXPECT_EQ(cudaMemoryTypeUnregistered, a.type);
  ASSERT_CUDA(cudaPointerGetAttributes(&a, static_cast<char*>(device.pointer) + 63));
  EXPECT_EQ(cudaMemoryTypeDevice, a.type);
  ASSERT_CUDA(cudaPointerGetAttributes(&a, pinned.pointer));
  EXPECT_EQ(cudaMemoryTypeHost, a.type);
}

TEST(Memory, RegisteredMemoryIsPinnedUntilUnregistered) {
  std::vector<char> own(1 << 16);
  cudaPointerAttributes a;
  ASSERT_CUDA(cudaHostRegister(own.data(), own.size(), 0));
  ASSERT_CUDA(cudaPointerGetAttributes(&a, own.data() + 100));
  EXPECT_EQ(cudaMemoryTypeHost, a.type);
  ASSERT_CUDA(cudaHostUnregister(own.data()));
  EXPECT_EQ(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(own.data()));
  cudaGetLastError();
}

TEST(Memory, TheDeviceIsFiniteAndAccountsForItself) {
  size_t free_before = 0, total = 0, free_after = 0;
  ASSERT_CUDA(cudaMemGetInfo(&free_before, &total));
  void* pointer = nullptr;
  EXPECT_EQ(cudaErrorMemoryAllocation, cudaMalloc(&pointer, total + 1));
  cudaGetLastError();
  ASSERT_CUDA(cudaMalloc(&pointer, 1 << 20));
  ASSERT_CUDA(cudaMemGetInfo(&free_after, &total));
  EXPECT_EQ(free_before - (1 << 20), free_after);
  EXPECT_CUDA(cudaFree(pointer));
  EXPECT_EQ(cudaErrorInvalidValue, cudaFree(pointer));
  cudaGetLastError();
}

TEST(Memory, FreeWaitsForTheDevice) {
  TestStream stream;
  Event end;
  void* pointer = nullptr;
  ASSERT_CUDA(cudaMalloc(&pointer, 64));
  ASSERT_CUDA(kOne.launch(stream));
  end.record(stream);
  ASSERT_CUDA(cudaFree(pointer));
  EXPECT_CUDA(cudaEventQuery(end));
}

TEST(Memory, AsyncAllocationReusesWithoutWaiting) {
  TestStream stream;
  Gate gate;
  ASSERT_CUDA(gate.hold(stream));
  void *first = nullptr, *second = nullptr;
  ASSERT_CUDA(cudaMallocAsync(&first, 1 << 20, stream));
  ASSERT_CUDA(cudaFreeAsync(first, stream));  // returns although the gate is closed
  ASSERT_CUDA(cudaMallocAsync(&second, 1 << 20, stream));
  EXPECT_EQ(first, second);
  cudaMemPool_t pool = nullptr;
  uint64_t used = 0;
  ASSERT_CUDA(cudaDeviceGetDefaultMemPool(&pool, 0));
  ASSERT_CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  EXPECT_EQ(uint64_t{1} << 20, used);
  ASSERT_CUDA(cudaFreeAsync(second, stream));
  gate.open();
  ASSERT_CUDA(cudaStreamSynchronize(stream));
}

}  // namespace
