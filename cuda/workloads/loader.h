// SPDX-License-Identifier: Apache-2.0
// A data loader with threads of its own: each takes the next batch number, prepares that batch, and the
// consumer gets batches in order, at most `prefetch` a worker ahead. With no workers the consumer prepares
// its batches itself. Preparing means a read that takes `read_ms` (the thread sleeps, as in a request to
// remote storage) and a decode that keeps a core for `decode_ms`.
#pragma once

#include <cuda_runtime.h>

#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "phase_log.h"

struct LoaderOptions {
  int workers = 1;
  int prefetch = 2;
  double read_ms = 0;
  double decode_ms = 0;
  size_t batch_bytes = 16 << 20;
  bool pinned = true;
  long batches = 0;
};

class Loader {
 public:
  struct Batch {
    long number = -1;
    float* data = nullptr;
  };

  explicit Loader(const LoaderOptions& options) : options_(options) {
    const int buffers = options_.workers * options_.prefetch + kHeldByConsumer;
    for (int i = 0; i < buffers; ++i) free_.push_back(allocate());
    for (int i = 0; i < options_.workers; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Loader() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    for (float* buffer : all_) release(buffer);
  }
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  Batch next() {
    if (options_.workers == 0) {
      Batch batch{next_out_++, free_.back()};
      free_.pop_back();
      prepare(batch);
      return batch;
    }
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return ready_.count(next_out_) > 0; });
    const Batch batch{next_out_, ready_[next_out_]};
    ready_.erase(next_out_++);
    return batch;
  }

  // The consumer has no more use for the batch's buffer.
  void give_back(const Batch& batch) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      free_.push_back(batch.data);
    }
    changed_.notify_all();
  }

 private:
  static constexpr int kHeldByConsumer = 2;

  float* allocate() {
    void* buffer = nullptr;
    if (options_.pinned) {
      if (cudaMallocHost(&buffer, options_.batch_bytes) != cudaSuccess) buffer = nullptr;
    } else {
      buffer = std::malloc(options_.batch_bytes);
    }
    if (!buffer) {
      std::fprintf(stderr, "loader: no memory for a batch of %zu bytes\n", options_.batch_bytes);
      std::exit(1);
    }
    std::memset(buffer, 0, options_.batch_bytes);
    all_.push_back(static_cast<float*>(buffer));
    return all_.back();
  }
  void release(float* buffer) {
    if (options_.pinned) {
      cudaFreeHost(buffer);
    } else {
      std::free(buffer);
    }
  }

  void work() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stopping_ || (!free_.empty() && next_in_ < options_.batches); });
      if (stopping_) return;
      const Batch batch{next_in_++, free_.back()};
      free_.pop_back();
      lock.unlock();
      prepare(batch);
      lock.lock();
      ready_[batch.number] = batch.data;
      changed_.notify_all();
    }
  }

  void prepare(const Batch& batch) {
    phase_log::Scope phase("prepare", batch.number);
    if (options_.read_ms > 0) {
      const auto ns = static_cast<int64_t>(options_.read_ms * 1e6);
      const timespec duration{static_cast<time_t>(ns / 1000000000), static_cast<long>(ns % 1000000000)};
      nanosleep(&duration, nullptr);
    }
    const int64_t end_ns = thread_cpu_ns() + static_cast<int64_t>(options_.decode_ms * 1e6);
    constexpr size_t kPiece = 4096;
    for (size_t i = 0; thread_cpu_ns() < end_ns; i = (i + kPiece) % (options_.batch_bytes / sizeof(float))) {
      for (size_t k = i; k < i + kPiece && k < options_.batch_bytes / sizeof(float); ++k) {
        batch.data[k] = batch.data[k] * 0.5f + static_cast<float>(batch.number);
      }
    }
    batch.data[0] = static_cast<float>(batch.number);
  }

  static int64_t thread_cpu_ns() {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
  }

  const LoaderOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<float*> all_;
  std::vector<float*> free_;
  std::map<long, float*> ready_;
  long next_in_ = 0;
  long next_out_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};
