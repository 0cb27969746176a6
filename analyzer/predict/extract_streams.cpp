// SPDX-License-Identifier: Apache-2.0
// Turns a rank's recorded calls and device operations into the sequence that the replay runs.
#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "analyzer/predict/stream_gaps.h"
#include "analyzer/predict/stream_replay.h"
#include "analyzer/predict/timeline_calls.h"
#include "libinject/trace/layout.h"

namespace gpuwatch::predict {
namespace {

using model::DeviceOp;
using model::HostCall;
using model::Ns;
using trace::OpClass;

// Longer than any enqueue, shorter than any wait that matters: a call that returns this long after its own
// operation ended, or later, did wait for it.
constexpr Ns kReturnSlackNs = 2'000;
constexpr Ns kEdgeSlackNs = 5'000;          // an operation begins this soon after the one that it waited for
constexpr double kLongestLatencyNs = 20e3;  // launch to start on an idle stream; more is some other wait
// Pageable copies up to this size are taken along with the call; the driver stages larger ones when their
// stream has come to them (CUDA Runtime API, "API synchronization behavior").
constexpr uint64_t kLargestUnstaged = 64 << 10;

// The last operation of each stream, of those that were used lately: a process may have 65 000 streams, and
// each operation would look at all of them.
class StreamEnds {
 public:
  struct Last {
    uint16_t stream = 0;
    Ns end = 0;
    uint32_t op = model::kNone;
  };

  // null: none, or none lately.
  const Last* find(uint32_t stream) const {
    const auto found = std::ranges::find(last_, stream, &Last::stream);
    return found == last_.end() ? nullptr : &*found;
  }

  void set(const Last& last) {
    auto place = std::ranges::find(last_, last.stream, &Last::stream);
    if (place == last_.end() && last_.size() < kMost) place = last_.insert(last_.end(), last);
    if (place == last_.end()) --place;
    std::move_backward(last_.begin(), place, place + 1);
    last_.front() = last;
  }

  // The operation of another stream that ended just before this one began, when nothing else explains the
  // wait.
  uint32_t waited_for(const DeviceOp& op, Ns launched) const {
    Ns ready = launched + Ns(kLongestLatencyNs);
    if (const Last* own = find(op.stream)) ready = std::max(ready, own->end + kEdgeSlackNs);
    if (op.begin <= ready) return model::kNone;
    uint32_t best = model::kNone;
    Ns closest = kEdgeSlackNs;
    for (const Last& other : last_) {
      Ns distance = op.begin - other.end;
      if (other.stream == op.stream || distance < 0 || distance > closest) continue;
      closest = distance;
      best = other.op;
    }
    return best;
  }

  const std::vector<Last>& lately() const { return last_; }

 private:
  static constexpr size_t kMost = 64;  // PyTorch takes its streams from pools of 32
  std::vector<Last> last_;             // the one used last comes first
};

// Which calls that free memory wait for the device. One that met an idle device does not show it, but will
// wait once nothing else does before it: then it does what the others of its function did, and where none
// tells, what CUDA's documentation says of the function.
class Frees {
 public:
  explicit Frees(const std::vector<model::Operation>& operations) : operations_(operations) {}

  // Whether this one was seen to wait.
  bool add(size_t event, const HostCall& call, Ns device_end) {
    const bool was_busy = device_end > call.begin;
    const bool waited = was_busy && call.end + kReturnSlackNs >= device_end;
    if (was_busy) ++(waited ? waited_[call.operation] : went_on_[call.operation]);
    calls_.push_back({event, call.operation, was_busy, waited});
    return waited;
  }

  void set_roles(std::vector<HostEvent>& events) const {
    for (const Call& call : calls_) {
      if (call.was_busy ? !call.waited : !waits(call.operation)) continue;
      events[call.event].role = HostRole::kSync;
      events[call.event].stream = kAllStreams;
    }
  }

 private:
  struct Call {
    size_t event;
    uint16_t operation;
    bool was_busy, waited;
  };

  bool waits(uint16_t operation) const {
    const auto count = [&](const auto& of) { return of.contains(operation) ? of.at(operation) : 0; };
    const size_t waited = count(waited_), went_on = count(went_on_);
    if (waited + went_on > 0) return waited > went_on;
    if (operation >= operations_.size()) return false;
    // cudaFree, cuMemFree, cudaFreeHost, cudaFreeArray; neither cudaFreeAsync nor cudaHostUnregister.
    const std::string& name = operations_[operation].name;
    return name.find("Free") != std::string::npos && name.find("Async") == std::string::npos;
  }

  const std::vector<model::Operation>& operations_;
  std::vector<Call> calls_;
  std::map<uint16_t, size_t> waited_, went_on_;  // by operation: calls that met a busy device
};

class Extraction {
 public:
  Extraction(const model::Run& run, const model::Device& device, const attribute::RankAttribution& rank)
      : process_(run.processes.at(rank.process)), device_(device), rank_(rank), frees_(run.operations) {
    for (const model::LoaderEpoch& epoch : process_.epochs)
      for (const model::Batch& batch : epoch.batches)
        if (batch.next.end > batch.next.begin) taken_[batch.next.end] = {&epoch, &batch};
    if (process_.training_thread == model::kNone) return;
    for (const HostCall& call : process_.threads[process_.training_thread].calls)
      if (call.op_class == OpClass::OptimizerStep) optimizer_steps_.push_back({call.begin, call.end});
  }

  StreamReplayInput run() {
    model::TimeSpan span{rank_.steps.front().step.begin, rank_.steps.back().step.end};
    const OperationsByCall operations(device_.operations);
    Ns cursor = span.begin;
    size_t step = 0;
    for (const CallRef& ref : timeline_calls(process_, span)) {
      while (step + 1 < rank_.steps.size() && ref.host->begin >= rank_.steps[step + 1].step.begin) ++step;
      if (ref.host->begin >= rank_.steps[step].step.end) {  // between recorded steps
        cursor = std::max(cursor, ref.host->end);
        continue;
      }
      if (follows_a_gap(step)) cursor = std::max(cursor, rank_.steps[step].step.begin);
      add(ref, operations, cursor, uint32_t(step));
      cursor = std::max(cursor, ref.host->end);
    }
    // What the device still does after the last call is its own work, not the host's.
    recording_.tail_ns = std::max<double>(0, double(span.end - std::max(cursor, device_end_)));
    gaps_.fill(recording_.ops);
    finish();
    return std::move(recording_);
  }

 private:
  // Time between recorded steps (warm-up, another phase) is not replayed.
  bool follows_a_gap(size_t step) const {
    return step > 0 && rank_.steps[step].step.begin > rank_.steps[step - 1].step.end;
  }

  void add(const CallRef& ref, const OperationsByCall& operations, Ns cursor, uint32_t step) {
    const HostCall& call = *ref.host;
    HostEvent event;
    event.gap_ns = std::max<double>(0, double(call.begin - cursor));
    event.cost_ns = double(call.end - std::max(call.begin, cursor));
    event.cost_ns = std::max(0.0, event.cost_ns);
    event.op_class = call.op_class;
    event.is_input = waits_for_data(call.op_class, true);
    event.step = step;
    event.thread = ref.thread;
    event.call = ref.call;
    event.first_op = uint32_t(recording_.ops.size());
    for (const uint32_t index : operations.of(ref.thread, ref.call)) add_operation(index, call);
    event.op_count = uint32_t(recording_.ops.size()) - event.first_op;
    if (event.is_input && !note_batch(event, call)) note_supply(event, call);
    event.gap_ns += std::exchange(off_core_ns_, 0.0);
    follow_events(ref);
    set_role(event, ref);
    recording_.events.push_back(event);
  }

  // A worker's batch whose making was seen whole; false for others.
  bool note_batch(HostEvent& event, const HostCall& call) {
    const auto taken = taken_.find(call.end);
    if (taken == taken_.end()) return false;
    const auto [epoch, batch] = taken->second;
    const model::Loader& loader = process_.loaders.at(epoch->loader);
    const bool is_known = batch->fetch.begin > 0 && (loader.pin_memory != 1 || batch->pinned.end > 0);
    if (loader.num_workers < 1 || batch->worker == model::kNone || !is_known) return false;
    const Ns ready = std::max(batch->fetch.end, batch->pinned.end);
    const auto [worker, is_first] = workers_.try_emplace({epoch, batch->worker}, recording_.workers);
    if (is_first) ++recording_.workers;
    SuppliedBatch supplied;
    supplied.worker = worker->second;
    supplied.made_in_ns = double(batch->fetch.length());
    supplied.handed_in_ns = double(ready - batch->fetch.end);
    if (is_first) supplied.lead_ns = double(call.begin - ready);
    const auto next = std::ranges::upper_bound(nexts_, batch->sent);
    if (next != nexts_.begin()) supplied.sent_with = uint32_t(next - nexts_.begin() - 1);
    event.batch = uint32_t(recording_.batches.size());
    event.cost_ns = double(call.end - std::clamp(ready, call.begin, call.end));
    recording_.batches.push_back(supplied);
    nexts_.push_back(call.begin);
    supplied_ = call.end;
    return true;
  }

  // Data that was there already says nothing about how fast it is made.
  void note_supply(HostEvent& event, const HostCall& call) {
    constexpr double kReadyShare = 0.05;  // taking a batch that is ready costs PyTorch about 1 ms of a step
    const double since_last = double(call.end - supplied_);
    if (supplied_ > 0 && event.cost_ns > kReadyShare * since_last) event.supply_ns = since_last;
    supplied_ = call.end;
  }

  const trace::EventDetail* detail(const CallRef& ref) const {
    return model::event_detail_of(process_.threads[ref.thread], *ref.host);
  }

  // An event stands behind the last operation of its stream; waiting for it is waiting for that one.
  void follow_events(const CallRef& ref) {
    const bool records = ref.host->op_class == OpClass::Event,
               waits = ref.host->op_class == OpClass::StreamWait;
    const trace::EventDetail* about = records || waits ? detail(ref) : nullptr;
    const auto stream = about ? streams_.find(about->stream()) : streams_.end();
    if (!about || about->event() == 0 || stream == streams_.end()) return;
    if (records) {
      const StreamEnds::Last* last = stream_ends_.find(stream->second);
      events_[about->event()] = last ? last->op : model::kNone;
    } else if (auto event = events_.find(about->event()); event != events_.end()) {
      pending_waits_[stream->second] = event->second;
    }
  }

  void add_operation(uint32_t index, const HostCall& call) {
    const DeviceOp& op = device_.operations[index];
    streams_[call.argument] = op.stream;  // the handle's low bits, as in details
    stream_free_ = ended(op.stream);
    StreamOp recorded;
    recorded.duration_ns = double(op.end - op.begin);
    recorded.stream = op.stream;
    recorded.device_op = index;
    recorded.is_of_optimizer = is_in_optimizer(call.begin);
    const Ns own_end = ended(op.stream);
    double latency = double(op.begin - call.begin);
    recorded.latency_ns = std::clamp(latency, 0.0, kLongestLatencyNs);
    if (own_end > call.begin && op.begin - own_end < Ns(kLongestLatencyNs))
      recorded.latency_ns = std::min(recorded.latency_ns, 5e3);
    if (auto wait = pending_waits_.find(op.stream); wait != pending_waits_.end()) {
      recorded.waits_for = wait->second;
      pending_waits_.erase(wait);
    } else {
      recorded.waits_for = stream_ends_.waited_for(op, call.begin);
    }
    note_gap(recorded, op, call);
    stream_ends_.set({op.stream, op.end, uint32_t(recording_.ops.size())});
    device_end_ = std::max(device_end_, op.end);
    matched_ns_ += recorded.duration_ns;
    recording_.ops.push_back(recorded);
  }

  void note_gap(StreamOp& recorded, const DeviceOp& op, const HostCall& call) {
    const StreamEnds::Last* last = stream_ends_.find(op.stream);
    if (!last || recorded.waits_for != model::kNone) return;
    const DeviceOp& before = device_.operations[recording_.ops[last->op].device_op];
    gaps_.note(recorded, uint32_t(recording_.ops.size()), before, op, call.begin);
  }

  bool is_in_optimizer(Ns time) const {
    const auto after = std::ranges::upper_bound(optimizer_steps_, time, {}, &model::TimeSpan::begin);
    return after != optimizer_steps_.begin() && time < (after - 1)->end;
  }

  void set_role(HostEvent& event, const CallRef& ref) {
    const HostCall& call = *ref.host;
    if (event.op_count > 0) return set_role_of_operations(event, call);
    Ns target = 0;
    if (call.op_class == OpClass::Sync)
      target = set_target(event, ref);
    else if (call.op_class == OpClass::Free)
      target = frees_.add(recording_.events.size(), call, device_end_) ? device_end_ : 0;
    else
      return;
    event.cost_ns = double(call.end - std::clamp(target, call.begin, call.end));
  }

  void set_role_of_operations(HostEvent& event, const HostCall& call) {
    const DeviceOp& last = device_.operations[recording_.ops.back().device_op];
    const bool waited = call.op_class == OpClass::Copy && call.end >= last.end;
    event.role = waited ? HostRole::kBlockOnOwn : HostRole::kEnqueue;
    if (waited) {
      // What remains after the operation ended; before it, the replay waits by itself. Longer than that, the
      // host has lost its core, which it would have at any other place, too, except where it takes bytes out
      // of a buffer into pageable memory.
      constexpr double kLongestReturnNs = 50e3, kSlowestCopy = 1;  // bytes a ns
      const bool is_taken_out = last.flags & trace::kDestinationPageable;
      const double longest = kLongestReturnNs + (is_taken_out ? double(last.bytes) / kSlowestCopy : 0);
      const double returned = double(call.end - std::max(last.end, call.begin));
      event.cost_ns = std::min(returned, longest);
      off_core_ns_ += returned - event.cost_ns;
    } else {
      const Ns room = std::clamp(room_at(call.end), call.begin, call.end);
      event.cost_ns = std::min(event.cost_ns, double(call.end - room));
    }
    if (event.op_count == 1 && is_staged(last) && stream_free_ <= call.end)
      wait_for_stream(event, call, last);
  }

  static bool is_staged(const DeviceOp& op) {
    return op.kind == trace::RecordKind::CopyH2D && op.flags & trace::kSourcePageable &&
           op.bytes > kLargestUnstaged;
  }

  void wait_for_stream(HostEvent& event, const HostCall& call, const DeviceOp& op) {
    const Ns begun = std::clamp(stream_free_, call.begin, call.end);
    event.waits_for_stream = true;
    recording_.ops.back().latency_ns = double(std::max<Ns>(0, op.begin - begun));
    if (event.role == HostRole::kEnqueue) event.cost_ns = double(call.end - begun);
  }

  // A launch into a full queue returns when the device takes an operation off it, and the replay waits for
  // that by itself. When it last did before `time`; 0 while the queue is far from full.
  Ns room_at(Ns time) {
    while (begun_ < recording_.ops.size() && begin_of(begun_) <= time) ++begun_;
    return begun_ > 0 && recording_.ops.size() - begun_ > kQueueDepth / 2 ? begin_of(begun_ - 1) : 0;
  }
  Ns begin_of(size_t op) const { return device_.operations[recording_.ops[op].device_op].begin; }

  // What a synchronisation waits for, and when that ended: an event, a stream, everything.
  Ns set_target(HostEvent& event, const CallRef& ref) {
    event.role = HostRole::kSync;
    event.stream = kAllStreams;
    const trace::EventDetail* about = detail(ref);
    const auto recorded = about && about->event() ? events_.find(about->event()) : events_.end();
    if (recorded != events_.end()) {
      event.waits_op = recorded->second;
      event.stream = kNoStream;
      return event.waits_op == model::kNone
                 ? 0
                 : device_.operations[recording_.ops[event.waits_op].device_op].end;
    }
    if (auto stream = about ? streams_.find(about->stream()) : streams_.end();
        stream != streams_.end() && about->stream() != 0) {
      event.stream = stream->second;
    } else if (device_end_ > ref.host->end + kReturnSlackNs) {
      event.stream = stream_ended_before(*ref.host);
    }
    return event.stream == kAllStreams ? device_end_ : ended(event.stream);
  }

  // A synchronisation that returned while the device still worked waited for one stream: the one whose last
  // operation ended latest before it returned.
  uint32_t stream_ended_before(const HostCall& call) const {
    uint32_t best = kNoStream;
    Ns latest = 0;
    for (const StreamEnds::Last& last : stream_ends_.lately()) {
      if (last.end > call.end + kReturnSlackNs || last.end <= latest) continue;
      latest = last.end;
      best = last.stream;
    }
    return best;
  }

  Ns ended(uint32_t stream) const {
    const StreamEnds::Last* last = stream_ends_.find(uint16_t(stream));
    return last ? last->end : 0;
  }

  void finish() {
    frees_.set_roles(recording_.events);
    recording_.steps = rank_.steps.size();
    recording_.measured_step_ms = measured_step_ms();
    double all_ns = 0;
    for (const DeviceOp& op : device_.operations) {
      bool inside = op.begin >= rank_.steps.front().step.begin && op.begin < rank_.steps.back().step.end;
      if (inside) all_ns += double(op.end - op.begin);
    }
    if (all_ns > 0) recording_.matched_share = std::min(1.0, matched_ns_ / all_ns);
  }

  // With the work of the steps done: a host that runs ahead of its device ends its steps sooner than that.
  double measured_step_ms() const {
    const Ns begin = rank_.steps.front().step.begin, end = rank_.steps.back().step.end;
    const Ns wall_ns = rank_.wall_ns + queued_at(end) - queued_at(begin);
    return wall_ns > 0 ? double(wall_ns) / double(rank_.steps.size()) / 1e6 : rank_.mean_step_ms();
  }

  // How long the device still had to work at `time` on what had been launched by then.
  Ns queued_at(Ns time) const {
    Ns done = time;
    for (const DeviceOp& op : device_.operations) {
      if (op.end <= done || op.launch_thread == model::kNone) continue;
      if (process_.threads[op.launch_thread].calls[op.launch_call].begin < time) done = op.end;
    }
    return done - time;
  }

  static constexpr uint32_t kNoStream = 0xfffffffe;  // waits for nothing
  const model::Process& process_;
  const model::Device& device_;
  const attribute::RankAttribution& rank_;
  StreamReplayInput recording_;
  Frees frees_;
  StreamEnds stream_ends_;
  StreamGaps gaps_;
  std::unordered_map<uint32_t, uint16_t> streams_;        // by the handle's low bits, learnt from launches
  std::unordered_map<uint64_t, uint32_t> events_;         // by handle: the operation that it stands behind
  std::unordered_map<uint16_t, uint32_t> pending_waits_;  // by stream: what its next operation waits for
  std::unordered_map<Ns, std::pair<const model::LoaderEpoch*, const model::Batch*>>
      taken_;                                                                   // by when next() ended
  std::map<std::pair<const model::LoaderEpoch*, uint32_t>, uint32_t> workers_;  // of an epoch
  std::vector<Ns> nexts_;  // by batch: when its next() was called
  std::vector<model::TimeSpan> optimizer_steps_;
  size_t begun_ = 0;  // recorded operations that the device had begun when it was last looked at
  Ns device_end_ = 0;
  Ns stream_free_ = 0;  // when the stream of the last operation had done what was before it
  Ns supplied_ = 0;     // the last input wait was over
  double matched_ns_ = 0;
  double off_core_ns_ = 0;  // that the host lost since the event before
};

}  // namespace

std::optional<StreamReplayInput> extract_streams(const model::Run& run,
                                                 const attribute::RankAttribution& rank) {
  if (rank.device == model::kNone || !rank.device_observed || rank.steps.empty()) return std::nullopt;
  const model::Process& process = run.processes.at(rank.process);
  StreamReplayInput recording = Extraction(run, process.devices.at(rank.device), rank).run();
  if (recording.ops.empty()) return std::nullopt;
  return recording;
}

}  // namespace gpuwatch::predict
