// SPDX-License-Identifier: Apache-2.0
// The training loop that most of the workloads share: take a batch, copy it, train on it. Two batches
// are in flight; the host waits for the older one before it takes its buffer again, as loops with a
// bounded run-ahead do.
#pragma once

#include "loader.h"
#include "model.cuh"
#include "phase_log.h"

struct LoopOptions {
  LoaderOptions loader;
  long steps = 50;
  int batch = 64;
  bool copy_stream = true;  // batches are copied on a stream of their own; else on the compute stream
  int tables = 0;           // of the host, page-locked: in each step the next one is copied to the device
  size_t table_bytes = 0;
};

class TrainingLoop {
 public:
  explicit TrainingLoop(const LoopOptions& options) : options_(options) {
    options_.loader.batches = options.steps;
    CHECK(cudaStreamCreateWithFlags(&compute_, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking));
    for (int i = 0; i < options_.tables; ++i) {
      void* table = nullptr;
      CHECK(cudaMallocHost(&table, options_.table_bytes));
      std::memset(table, 0, options_.table_bytes);
      tables_.push_back(table);
    }
    if (options_.tables) CHECK(cudaMalloc(&device_table_, options_.table_bytes));
    for (Slot& slot : slots_) {
      CHECK(cudaMalloc(&slot.input, options_.loader.batch_bytes));
      CHECK(cudaEventCreateWithFlags(&slot.copied, cudaEventDisableTiming));
      CHECK(cudaEventCreateWithFlags(&slot.trained, cudaEventDisableTiming));
    }
  }
  ~TrainingLoop() {
    for (Slot& slot : slots_) {
      cudaEventDestroy(slot.copied);
      cudaEventDestroy(slot.trained);
      cudaFree(slot.input);
    }
    for (void* table : tables_) cudaFreeHost(table);
    cudaFree(device_table_);
    cudaStreamDestroy(copies_);
    cudaStreamDestroy(compute_);
  }
  TrainingLoop(const TrainingLoop&) = delete;
  TrainingLoop& operator=(const TrainingLoop&) = delete;

  void run() {
    Loader loader(options_.loader);
    const int64_t begin_ns = phase_log::now_ns();
    for (long step = 0; step < options_.steps; ++step) {
      phase_log::Scope phase("step", step);
      train_step(loader, step);
    }
    {
      phase_log::Scope phase("drain", options_.steps);
      CHECK(cudaDeviceSynchronize());
    }
    const double seconds = static_cast<double>(phase_log::now_ns() - begin_ns) / 1e9;
    std::printf("%ld steps, %.3f ms a step, %.1f samples/s\n", options_.steps, seconds * 1e3 / options_.steps,
                options_.steps * options_.batch / seconds);
  }

 private:
  struct Slot {
    float* input = nullptr;
    Loader::Batch batch;
    cudaEvent_t copied = nullptr;
    cudaEvent_t trained = nullptr;
  };

  void train_step(Loader& loader, long step) {
    Slot& slot = slots_[step % 2];
    if (slot.batch.data) {
      phase_log::Scope phase("slot_wait", step);
      CHECK(cudaEventSynchronize(slot.trained));
      loader.give_back(slot.batch);
    }
    {
      phase_log::Scope phase("data_wait", step);
      slot.batch = loader.next();
    }
    const cudaStream_t copies = options_.copy_stream ? copies_ : compute_;
    {
      phase_log::Scope phase("copy", step);
      CHECK(cudaMemcpyAsync(slot.input, slot.batch.data, options_.loader.batch_bytes, cudaMemcpyHostToDevice,
                            copies));
      CHECK(cudaEventRecord(slot.copied, copies));
    }
    if (!tables_.empty()) {
      const void* table = tables_[static_cast<size_t>(step) % tables_.size()];
      CHECK(cudaMemcpyAsync(device_table_, table, options_.table_bytes, cudaMemcpyHostToDevice, compute_));
    }
    phase_log::Scope phase("launch", step);
    CHECK(cudaStreamWaitEvent(compute_, slot.copied, 0));
    model_.train(slot.input, compute_);
    CHECK(cudaEventRecord(slot.trained, compute_));
  }

  LoopOptions options_;
  Model model_;
  cudaStream_t compute_ = nullptr;
  cudaStream_t copies_ = nullptr;
  Slot slots_[2];
  std::vector<void*> tables_;
  void* device_table_ = nullptr;
};
