// SPDX-License-Identifier: Apache-2.0
// What nvcc would have generated for the tests: kernels with names, registered by the public registration
// ABI, so that the tests need no nvcc. And a gate that holds a stream: what is submitted behind it gets its
// times when the gate opens, hence exact ones however slow the test runs.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#define ASSERT_CUDA(call) ASSERT_EQ(cudaSuccess, (call))
#define EXPECT_CUDA(call) EXPECT_EQ(cudaSuccess, (call))

extern "C" void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*,
                                       dim3*, int*);
extern "C" void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int);
extern "C" cudaError_t __cudaGetKernel(cudaKernel_t*, const void*);
extern "C" cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t);

class FakeKernel {
 public:
  explicit FakeKernel(const char* name) : name_(name) {
    __cudaRegisterFunction(nullptr, name_, nullptr, name_, -1, nullptr, nullptr, nullptr, nullptr, nullptr);
  }
  cudaError_t launch(cudaStream_t stream, unsigned blocks = 1) const {
    return cudaLaunchKernel(name_, dim3(blocks), dim3(32), nullptr, 0, stream);
  }
  const void* function() const { return name_; }

 private:
  const char* name_;  // its address stands for the host stub
};

class Gate {
 public:
  cudaError_t hold(cudaStream_t stream) { return cudaLaunchHostFunc(stream, wait_for, this); }
  void open() {
    // What was launched last is past its launch latency (3 us): the gate is all that it waits for.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  static void wait_for(void* gate) {
    auto* self = static_cast<Gate*>(gate);
    std::unique_lock lock(self->mutex_);
    self->changed_.wait(lock, [self] { return self->open_; });
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

class Event {
 public:
  Event() { EXPECT_CUDA(cudaEventCreate(&event_)); }
  ~Event() { cudaEventDestroy(event_); }
  operator cudaEvent_t() const { return event_; }
  void record(cudaStream_t stream) { EXPECT_CUDA(cudaEventRecord(event_, stream)); }

 private:
  cudaEvent_t event_ = nullptr;
};

class TestStream {
 public:
  explicit TestStream(unsigned flags = cudaStreamNonBlocking) {
    EXPECT_CUDA(cudaStreamCreateWithFlags(&stream_, flags));
  }
  ~TestStream() { cudaStreamDestroy(stream_); }
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// Device time between two events, in us.
inline double elapsed_us(cudaEvent_t from, cudaEvent_t to) {
  float ms = -1;
  EXPECT_CUDA(cudaEventElapsedTime(&ms, from, to));
  return ms * 1e3;
}

constexpr double kExactUs = 0.002;  // what a float of milliseconds resolves at these sizes
