// SPDX-License-Identifier: Apache-2.0
#include "timeline.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "config.h"
#include "observer.h"
#include "truth_log.h"

namespace gpuwatch::sim {

namespace {
constexpr uint32_t kDefaultStreamId = 7;
}

// Leaked: the host-function thread and late threads of the program may outlive static destruction.
Timeline& Timeline::instance() {
  static Timeline* timeline = new Timeline;
  return *timeline;
}

Stream* Timeline::create_stream(uint32_t device, StreamRule rule, int priority) {
  std::lock_guard lock(mutex_);
  return create_locked(device, rule, priority);
}

Stream* Timeline::create_locked(uint32_t device, StreamRule rule, int priority) {
  const Ns now = now_ns();
  std::erase_if(streams_,
                [now](const auto& s) { return s->destroyed && s->pending.empty() && s->tail_ns < now; });
  auto stream = std::make_unique<Stream>();
  stream->id = rule == StreamRule::kLegacyDefault ? kDefaultStreamId : next_stream_id_++;
  stream->device = device;
  stream->rule = rule;
  stream->priority = priority;
  streams_.push_back(std::move(stream));
  return streams_.back().get();
}

void Timeline::destroy_stream(Stream* stream) {
  std::lock_guard lock(mutex_);
  stream->destroyed = true;  // its work goes on; the object goes with a later create_stream
}

Stream* Timeline::legacy_stream(uint32_t device) {
  std::lock_guard lock(mutex_);
  Stream*& stream = legacy_[device];
  if (!stream) stream = create_locked(device, StreamRule::kLegacyDefault, 0);
  return stream;
}

Stream* Timeline::per_thread_stream(uint32_t device) {
  thread_local std::map<uint32_t, Stream*> t_streams;
  Stream*& stream = t_streams[device];
  if (!stream) stream = create_stream(device, StreamRule::kBlocking, 0);
  return stream;
}

bool Timeline::is_stream(const Stream* stream) {
  std::lock_guard lock(mutex_);
  return std::any_of(streams_.begin(), streams_.end(),
                     [stream](const auto& s) { return s.get() == stream && !s->destroyed; });
}

void Timeline::submit(Stream& stream, Op op) {
  std::vector<Op> done;
  const uint32_t correlation = op.correlation;
  Ns full_since_ns = 0;
  Ns submit_ns;
  {
    std::unique_lock lock(mutex_);
    full_since_ns = throttle(lock, stream);
    submit_ns = now_ns();
    if (op.submit_ns == 0) op.submit_ns = submit_ns;
    push(stream, std::move(op), done);
  }
  Observer* observer = current_observer();
  if (full_since_ns && observer) observer->on_queue_full(correlation, full_since_ns, submit_ns);
  publish(done);
}

MarkerRef Timeline::record(Stream& stream) {
  std::vector<Op> done;
  MarkerRef marker;
  {
    std::lock_guard lock(mutex_);
    marker = record_locked(stream, done);
  }
  publish(done);
  return marker;
}

void Timeline::wait(Stream& stream, MarkerRef marker) {
  Op op;
  op.waits.push_back(std::move(marker));
  std::vector<Op> done;
  {
    std::lock_guard lock(mutex_);
    push(stream, std::move(op), done);
  }
  publish(done);
}

std::vector<MarkerRef> Timeline::record_all(uint32_t device) {
  std::vector<MarkerRef> markers;
  std::lock_guard lock(mutex_);
  std::vector<Op> done;  // markers only: nothing to publish
  for (const auto& stream : streams_) {
    if (stream->device != device) continue;
    if (stream->pending.empty()) {
      markers.push_back(std::make_shared<Marker>());
      markers.back()->at = stream->tail_ns;
    } else {
      Op op;
      op.signals = std::make_shared<Marker>();
      markers.push_back(op.signals);
      stream->pending.push_back(std::move(op));
    }
  }
  return markers;
}

Ns Timeline::wait_host(const MarkerRef& marker) {
  Ns at = marker->at.load(std::memory_order_acquire);
  if (at == kPending) {
    std::unique_lock lock(mutex_);
    progress_.wait(lock, [&] { return marker->at.load(std::memory_order_acquire) != kPending; });
    at = marker->at;
  }
  sleep_until(at, config().spin_ns);
  return at;
}

// A stream takes queue_depth operations ahead of the device; the next launch blocks, as it does when a real
// command buffer is full. Returns since when it was full, 0 if it was not.
Ns Timeline::throttle(std::unique_lock<std::mutex>& lock, Stream& stream) {
  const size_t depth = static_cast<size_t>(config().queue_depth);
  for (Ns full_since_ns = 0;;) {
    const Ns now = now_ns();
    while (!stream.in_flight.empty() && stream.in_flight.front() <= now) stream.in_flight.pop_front();
    if (stream.in_flight.size() + stream.pending.size() < depth) return full_since_ns;
    if (!full_since_ns) full_since_ns = now;
    if (stream.in_flight.empty()) {
      progress_.wait(lock);
      continue;
    }
    const Ns place_free_ns = stream.in_flight.front();
    lock.unlock();
    sleep_until(place_free_ns, config().spin_ns);
    lock.lock();
  }
}

void Timeline::depend_on(Stream& other, Op& op) {
  if (other.pending.empty()) {
    op.not_before_ns = std::max(op.not_before_ns, other.tail_ns);
    return;
  }
  Op mark;
  mark.signals = std::make_shared<Marker>();
  op.waits.push_back(mark.signals);
  other.pending.push_back(std::move(mark));
}

void Timeline::add_default_stream_rule(Stream& stream, Op& op) {
  if (stream.rule == StreamRule::kNonBlocking) return;
  if (stream.rule == StreamRule::kBlocking) {
    const auto found = legacy_.find(stream.device);
    if (found != legacy_.end()) depend_on(*found->second, op);
    return;
  }
  for (const auto& other : streams_) {
    if (other->device == stream.device && other->rule == StreamRule::kBlocking) depend_on(*other, op);
  }
}

void Timeline::push(Stream& stream, Op&& op, std::vector<Op>& done) {
  add_default_stream_rule(stream, op);
  op.device = stream.device;
  op.stream = stream.id;
  const bool was_blocked = !stream.pending.empty();
  stream.pending.push_back(std::move(op));
  if (was_blocked) return;  // something in front is not known yet, and stays so
  ++blocked_streams_;
  compute(stream, done);
  if (blocked_streams_ > 0) compute_blocked(done);
}

MarkerRef Timeline::record_locked(Stream& stream, std::vector<Op>& done) {
  Op op;
  op.submit_ns = now_ns();  // an idle stream passes the point when it is told of it
  op.signals = std::make_shared<Marker>();
  MarkerRef marker = op.signals;
  push(stream, std::move(op), done);
  return marker;
}

// Computes what can be computed of one stream.
void Timeline::compute(Stream& stream, std::vector<Op>& done) {
  while (!stream.pending.empty() && compute_front(stream, done)) {
  }
  if (stream.pending.empty()) --blocked_streams_;
}

// Work that became known in one stream may have been what another waits for.
void Timeline::compute_blocked(std::vector<Op>& done) {
  for (bool progress = true; progress && blocked_streams_ > 0;) {
    progress = false;
    for (const auto& stream : streams_) {
      if (stream->pending.empty()) continue;
      const size_t before = stream->pending.size();
      const bool had_arrived = stream->pending.front().arrived;
      compute(*stream, done);
      progress |= stream->pending.size() != before || stream->pending.front().arrived != had_arrived;
    }
  }
  progress_.notify_all();
}

bool Timeline::compute_front(Stream& stream, std::vector<Op>& done) {
  Op& op = stream.pending.front();
  Ns ready_ns = std::max(stream.tail_ns, op.not_before_ns);
  for (const MarkerRef& marker : op.waits) {
    const Ns at = marker->at.load(std::memory_order_acquire);
    if (at == kPending) return false;
    ready_ns = std::max(ready_ns, at);
  }
  ready_ns = std::max(ready_ns, op.submit_ns + op.latency_ns);

  if (op.kind == OpKind::kHostFunction) {
    if (!op.arrived) start_host_function(stream, op, ready_ns);
    return false;
  }
  if (!op.meets.empty()) {
    if (!meet(op, ready_ns)) return false;
  } else {
    Engines& engines = engines_[stream.device];
    Ns* engine = op.kind == OpKind::kCopyH2D   ? &engines.h2d_free_ns
                 : op.kind == OpKind::kCopyD2H ? &engines.d2h_free_ns
                                               : nullptr;
    op.start_ns = engine ? std::max(ready_ns, *engine) : ready_ns;
    op.end_ns = op.start_ns + op.duration_ns;
    if (engine) *engine = op.end_ns;
  }
  Op finished = std::move(op);
  stream.pending.pop_front();
  finish(stream, std::move(finished), done);
  return true;
}

// Whether all peers have arrived. The last one to arrive makes the end known for all.
bool Timeline::meet(Op& op, Ns ready_ns) {
  if (!op.arrived) {
    op.arrived = true;
    op.start_ns = ready_ns;
    for (const auto& r : op.meets) {
      --r->missing;
      r->last_start = std::max(r->last_start, ready_ns);
    }
  }
  op.end_ns = op.start_ns;
  for (const auto& r : op.meets) {
    if (r->missing > 0) return false;
    op.end_ns = std::max(op.end_ns, r->last_start + r->duration_ns);
  }
  return true;
}

void Timeline::finish(Stream& stream, Op&& op, std::vector<Op>& done) {
  stream.tail_ns = std::max(stream.tail_ns, op.end_ns);
  if (op.signals) op.signals->at.store(op.end_ns, std::memory_order_release);
  if (op.kind == OpKind::kMarker) return;
  if (op.span && op.kind == OpKind::kGraph) {
    op.start_ns = std::min(op.span->start, op.end_ns);
  } else if (op.span) {
    op.span->start = std::min(op.span->start, op.start_ns);
    op.span->end = std::max(op.span->end, op.end_ns);
  }
  stream.in_flight.push_back(op.end_ns);
  done.push_back(std::move(op));
}

void Timeline::start_host_function(Stream& stream, Op& op, Ns ready_ns) {
  op.arrived = true;
  op.start_ns = ready_ns;
  host_functions_.emplace(ready_ns, DueHostFunction{std::move(op.host_function), &stream});
  if (!host_thread_running_) {
    host_thread_running_ = true;
    std::thread([this] { run_host_functions(); }).detach();
  }
  host_function_due_.notify_one();
}

// The service thread. One function at a time, as the driver does it; the stream goes on when it returns.
void Timeline::run_host_functions() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (host_functions_.empty()) {
      host_function_due_.wait(lock);
      continue;
    }
    const auto due = host_functions_.begin();
    const Ns wait_ns = due->first - now_ns() - config().spin_ns;
    if (wait_ns > 0) {  // an earlier one may come in while this one waits
      host_function_due_.wait_for(lock, std::chrono::nanoseconds(wait_ns));
      continue;
    }
    const Ns start_ns = due->first;
    DueHostFunction next = std::move(due->second);
    host_functions_.erase(due);
    lock.unlock();
    spin_until(start_ns);
    const Ns began_ns = now_ns();
    next.function();
    const Ns ended_ns = now_ns();

    std::vector<Op> done;
    lock.lock();
    Op op = std::move(next.stream->pending.front());
    next.stream->pending.pop_front();
    op.start_ns = began_ns;
    op.end_ns = ended_ns;
    finish(*next.stream, std::move(op), done);
    compute(*next.stream, done);
    compute_blocked(done);
    lock.unlock();
    publish(done);
    lock.lock();
  }
}

void Timeline::publish(std::vector<Op>& done) {
  if (done.empty()) return;
  Observer* observer = current_observer();
  for (const Op& op : done) {
    truth_op(op);
    if (observer) observer->on_op(op);
  }
  done.clear();
}

}  // namespace gpuwatch::sim
