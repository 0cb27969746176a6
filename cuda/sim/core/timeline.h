// SPDX-License-Identifier: Apache-2.0
// The device timeline: streams, and when each operation in them starts and ends.
//
// Start and end are computed when an operation is submitted, from what came before it: the stream's tail, the
// default-stream rule, awaited markers, a free copy engine, and submit time plus latency. Only what follows a
// host function or an incomplete collective cannot be computed yet: it stays in its stream and is computed
// when that has ended. Kernels of different streams overlap; each copy direction has one engine a device.
//
// Times in ns of CLOCK_MONOTONIC. Thread-safe; one lock. Listeners are told of an operation once its times
// are known, after the lock was left, on the thread that made them known.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "op.h"

namespace gpuwatch::sim {

struct Capture;

enum class StreamRule : uint8_t {
  kLegacyDefault,  // waits for all blocking streams, and they for it
  kBlocking,
  kNonBlocking,
};

struct Stream {
  uint32_t id = 0;
  uint32_t device = 0;
  StreamRule rule = StreamRule::kBlocking;
  int priority = 0;
  bool destroyed = false;

  // Guarded by the timeline's lock.
  Ns tail_ns = 0;
  std::deque<Op> pending;    // front first: not computed yet
  std::deque<Ns> in_flight;  // ends of computed operations, for the queue limit
  std::shared_ptr<Capture> capture;
  std::vector<uint32_t> capture_tail;  // nodes that the next captured operation depends on
};

class Timeline {
 public:
  static Timeline& instance();

  Stream* create_stream(uint32_t device, StreamRule rule, int priority);
  void destroy_stream(Stream* stream);
  Stream* legacy_stream(uint32_t device);
  // One for each thread and device; non-legacy blocking, as a stream created by cudaStreamCreate.
  Stream* per_thread_stream(uint32_t device);
  bool is_stream(const Stream* stream);

  // Puts `op` behind everything in the stream. Blocks the caller while the stream's queue is full.
  // An operation that brings its submit time keeps it.
  void submit(Stream& stream, Op op);
  // The point that the stream reaches when everything submitted so far is done.
  MarkerRef record(Stream& stream);
  // Work submitted from now on starts after `marker`.
  void wait(Stream& stream, MarkerRef marker);
  // Every stream of the device.
  std::vector<MarkerRef> record_all(uint32_t device);

  // Blocks the calling thread until the device has passed the marker, and returns when that was.
  Ns wait_host(const MarkerRef& marker);
  static bool passed(const Marker& marker) { return marker.at.load(std::memory_order_acquire) <= now_ns(); }

  std::mutex& mutex() { return mutex_; }

 private:
  struct Engines {
    Ns h2d_free_ns = 0;
    Ns d2h_free_ns = 0;
  };
  struct DueHostFunction {
    std::function<void()> function;
    Stream* stream;
  };

  Timeline() = default;
  Stream* create_locked(uint32_t device, StreamRule rule, int priority);
  Ns throttle(std::unique_lock<std::mutex>& lock, Stream& stream);
  void add_default_stream_rule(Stream& stream, Op& op);
  void depend_on(Stream& other, Op& op);
  void push(Stream& stream, Op&& op, std::vector<Op>& done);
  MarkerRef record_locked(Stream& stream, std::vector<Op>& done);
  bool compute_front(Stream& stream, std::vector<Op>& done);
  void compute(Stream& stream, std::vector<Op>& done);
  void compute_blocked(std::vector<Op>& done);
  void finish(Stream& stream, Op&& op, std::vector<Op>& done);
  bool meet(Op& op, Ns ready_ns);
  void start_host_function(Stream& stream, Op& op, Ns ready_ns);
  void run_host_functions();
  static void publish(std::vector<Op>& done);

  std::mutex mutex_;
  std::condition_variable progress_;  // a marker or a queue place became known
  std::vector<std::unique_ptr<Stream>> streams_;
  std::map<uint32_t, Stream*> legacy_;
  std::map<uint32_t, Engines> engines_;
  uint32_t next_stream_id_ = 14;  // as CUPTI numbers them: 7 is the default stream, 14 the first created one
  int blocked_streams_ = 0;       // streams with pending work

  std::condition_variable host_function_due_;
  std::multimap<Ns, DueHostFunction> host_functions_;
  bool host_thread_running_ = false;
};

}  // namespace gpuwatch::sim
