// SPDX-License-Identifier: Apache-2.0
// One process as attribution looks at it: threads by role, and their activities, made when first asked for.
// Not thread-safe (it caches). Times in ns.
#pragma once

#include <memory>
#include <vector>

#include "analyzer/attribute/activity.h"
#include "analyzer/model/compiler.h"

namespace gpuwatch::attribute {

// What a thread's counters say about `own_ns` of its time outside of calls that keep it off its CPU.
struct OwnTime {
  // Runnable, not running. The counter does not tell where: woken from a read that blocked, or preempted in
  // one, a thread waits for a CPU within that call. So by the share of CPU time: all of it where the time
  // outside of calls is just what its clock and the counter account for.
  model::Ns delayed_ns = 0;
  // Neither on a CPU nor waiting for one: while pages were read in (major faults), it waited for them.
  model::Ns unexplained_ns = 0;
};
OwnTime own_time(model::Ns own_ns, model::Ns cpu_ns, model::Ns run_delay_ns);

// How many of a thread's calls a question about a call's neighbours looks at: a step's worth. Keeps a trace
// that was made up, or a thread that never launches again, from costing quadratic time.
inline constexpr uint32_t kNeighborReach = 512;

class ProcessView {
 public:
  ProcessView(const model::Run& run, uint32_t process);

  const model::Run& run() const { return run_; }
  const model::Process& process() const { return process_; }
  uint32_t training_thread() const { return process_.training_thread; }
  const model::Thread& thread(uint32_t index) const { return process_.threads[index]; }
  const model::HostCall& call(uint32_t thread, uint32_t call) const {
    return process_.threads[thread].calls[call];
  }
  // A loader is seen, and the thread that trains takes its batches itself: waits elsewhere are not for data.
  // False where another thread iterates the loader and hands the batches on.
  bool takes_batches() const;
  // A compiler made it (model/compiler.h): whatever it does or waits for is compiling.
  bool is_compiling(uint32_t thread, uint32_t call) const {
    return model::is_in_compiler(run_, process_.threads[thread], process_.threads[thread].calls[call]);
  }
  // What a copy call moved, from the device's record of it where there is one, else from the call's detail.
  struct CopyFacts {
    trace::RecordKind kind = trace::RecordKind::CopyOther;
    uint64_t bytes = 0;
    bool from_pageable = false;
    uint32_t stream = 0;  // low bits of the stream's handle
  };
  CopyFacts copy_facts(uint32_t thread, uint32_t call) const;

  // The kernel that a call launched, of a graph the first one; kNone where that is not known.
  uint32_t kernel_of(uint32_t thread, uint32_t call) const;

  // Threads that feed the device, the training thread first.
  const std::vector<uint32_t>& feeding_threads() const { return feeding_threads_; }
  // Threads that make records and never feed the device: where a program's own loader threads are.
  const std::vector<uint32_t>& other_threads() const { return other_threads_; }
  bool feeds(uint32_t thread) const { return feeds_[thread]; }

  const Activity& activity(uint32_t thread) const;

  // The operation by which threads of this run wait for the interpreter's lock, kNoOperation without one:
  // CPython waits for its lock, and only for it, on a condition variable with a time limit.
  uint16_t lock_wait() const { return lock_wait_; }

 private:
  const model::Run& run_;
  const model::Process& process_;
  struct DeviceCopy {
    uint64_t thread_and_call;
    const model::DeviceOp* operation;
  };
  void index_threads();
  void index_copies();

  std::vector<bool> feeds_;
  uint16_t lock_wait_ = kNoOperation;
  std::vector<DeviceCopy> copies_;
  std::vector<uint32_t> feeding_threads_, other_threads_;
  mutable std::vector<std::unique_ptr<Activity>> activities_;
  mutable std::vector<std::vector<uint32_t>> kernels_;  // by thread and call, made when first asked for
};

}  // namespace gpuwatch::attribute
