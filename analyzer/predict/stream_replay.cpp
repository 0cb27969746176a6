// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/stream_replay.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace gpuwatch::predict {
namespace {

constexpr double kNsPerMs = 1e6;
constexpr double kBlockedNs = 1e3;          // least cost of a call that the what-if leaves in place
constexpr double kEnqueuedLatencyNs = 5e3;  // from a call that does not block to its operation's start

class Timeline {
 public:
  explicit Timeline(const StreamReplayInput& recording)
      : recording_(recording),
        starts_(recording.ops.size()),
        ends_(recording.ops.size()),
        taken_(recording.batches.size()),
        free_(recording.workers) {
    uint32_t streams = 0;
    for (const StreamOp& op : recording.ops) streams = std::max(streams, op.stream + 1);
    stream_end_.assign(streams, 0);
  }

  void play(const HostEvent& event) {
    host_ += event.gap_ns;
    if (event.waits_for_stream && event.op_count)
      host_ = std::max(host_, stream_end_[recording_.ops[event.first_op].stream]);
    double called = host_;
    for (uint32_t i = 0; i < event.op_count; ++i) enqueue(event.first_op + i, called);
    switch (event.role) {
      case HostRole::kWork:
      case HostRole::kEnqueue:
        if (event.is_input)
          take(event);
        else
          host_ += event.cost_ns;
        break;
      case HostRole::kBlockOnOwn:
        host_ = std::max(host_, ends_[event.first_op + event.op_count - 1]) + event.cost_ns;
        break;
      case HostRole::kSync:
        host_ = std::max(host_, wait_target(event)) + event.cost_ns;
        break;
    }
  }

  void advance(double host_ns) { host_ += host_ns; }
  double end() const { return std::max(host_, device_end_); }
  double host() const { return host_; }
  double busy() const { return busy_; }

 private:
  void enqueue(uint32_t index, double called) {
    const StreamOp& op = recording_.ops[index];
    if (enqueued_ >= kQueueDepth) host_ = std::max(host_, starts_[index - kQueueDepth]);
    double start = std::max(std::max(called, host_) + op.latency_ns, free_at(op));
    if (op.waits_for != model::kNone && op.waits_for < index) start = std::max(start, ends_[op.waits_for]);
    double end = start + op.duration_ns;
    starts_[index] = start;
    ends_[index] = stream_end_[op.stream] = end;
    busy_ += std::max(0.0, end - std::max(start, device_end_));
    device_end_ = std::max(device_end_, end);
    ++enqueued_;
  }

  void take(const HostEvent& event) {
    const bool is_known = event.batch != model::kNone;
    if (is_known) host_ = std::max(host_, ready(recording_.batches[event.batch]));
    host_ = supplied_ = std::max(host_ + event.cost_ns, supplied_ + event.supply_ns);
    if (is_known) taken_[event.batch] = host_;
  }

  double free_at(const StreamOp& op) const {
    const double end = stream_end_[op.stream];
    return end > 0 ? end + op.gap_ns : 0;
  }

  // When a batch that next() asks for at this point is there.
  double ready(const SuppliedBatch& batch) {
    double& free = free_[batch.worker];
    if (batch.sent_with != model::kNone) free = std::max(free, taken_[batch.sent_with]);
    free = batch.lead_ns ? host_ - *batch.lead_ns - batch.handed_in_ns : free + batch.made_in_ns;
    return free + batch.handed_in_ns;
  }

  double wait_target(const HostEvent& event) const {
    if (event.waits_op != model::kNone) return ends_[event.waits_op];
    if (event.stream == kAllStreams) return device_end_;
    return event.stream < stream_end_.size() ? stream_end_[event.stream] : host_;
  }

  const StreamReplayInput& recording_;
  std::vector<double> starts_, ends_, stream_end_;
  double host_ = 0, device_end_ = 0, busy_ = 0;
  double supplied_ = 0;        // when the last batch was there
  std::vector<double> taken_;  // by batch: when its next() returned
  std::vector<double> free_;   // by worker: when it had made its last batch
  size_t enqueued_ = 0;
};

// Times at which each step ended, in replay time.
std::vector<double> step_ends(const StreamReplayInput& recording, double& busy_ns) {
  Timeline timeline(recording);
  std::vector<double> ends(recording.steps, 0);
  for (const HostEvent& event : recording.events) {
    timeline.play(event);
    ends[event.step] = timeline.end();
  }
  timeline.advance(recording.tail_ns);
  if (!ends.empty()) ends.back() = timeline.end();
  for (size_t i = 1; i < ends.size(); ++i) ends[i] = std::max(ends[i], ends[i - 1]);
  busy_ns = timeline.busy();
  return ends;
}

// The launches that graphs of each step replace, numbered within the step. The event that begins a step is
// none of them: one launch remains, the graph's. So is the next one after a wait for the device: no graph
// holds a wait, and another one begins behind it.
class CapturedLaunches {
 public:
  CapturedLaunches(const StreamReplayInput& recording, bool with_optimizer)
      : recording_(recording), with_optimizer_(with_optimizer) {}

  std::optional<size_t> place_of(const HostEvent& event) {
    const bool follows = event.step == step_;
    step_ = event.step;
    if (!follows) {
      next_ = 0;
      launched_.clear();
      is_cut_ = false;
    }
    const bool waits = event.role == HostRole::kSync || event.role == HostRole::kBlockOnOwn;
    is_cut_ |= waits && std::ranges::find(launched_, event.thread) != launched_.end();
    if (event.op_class != trace::OpClass::Launch || event.role != HostRole::kEnqueue) return std::nullopt;
    if (std::ranges::find(launched_, event.thread) == launched_.end()) launched_.push_back(event.thread);
    if (!follows) return std::nullopt;
    if (!with_optimizer_ && recording_.ops[event.first_op].is_of_optimizer) return std::nullopt;
    if (std::exchange(is_cut_, false)) return std::nullopt;
    return next_++;
  }

 private:
  const StreamReplayInput& recording_;
  bool with_optimizer_;
  uint32_t step_ = model::kNone;
  size_t next_ = 0;
  std::vector<uint32_t> launched_;  // threads that did in this step: no graph ends where others wait
  bool is_cut_ = false;             // by a wait since the last launch
};

// In how many steps the host was longer than this before a launch, by the launch's place in its step.
std::vector<uint32_t> long_gaps_by_place(const StreamReplayInput& recording, const Capture& capture) {
  std::vector<uint32_t> counts;
  CapturedLaunches launches(recording, capture.with_optimizer);
  for (const HostEvent& event : recording.events) {
    const auto place = launches.place_of(event);
    if (!place) continue;
    if (*place >= counts.size()) counts.resize(*place + 1, 0);
    counts[*place] += event.gap_ns > capture.longest_gap_ns;
  }
  return counts;
}

double kept_ns(const StreamReplayInput& recording, const Capture& capture) {
  double dispatch_ns = 0, count = 0;
  CapturedLaunches launches(recording, capture.with_optimizer);
  for (const HostEvent& event : recording.events) {
    if (!launches.place_of(event) || event.gap_ns > capture.longest_gap_ns) continue;
    dispatch_ns += event.gap_ns + event.cost_ns;
    ++count;
  }
  if (count == 0) return 0;
  return dispatch_ns * (capture.kept_launches / count + capture.kept_share / double(recording.steps));
}

// It blocks no longer, so neither does its operation wait for the host to stage it.
void return_at_once(StreamReplayInput& recording, HostEvent& event) {
  event.role = event.op_count ? HostRole::kEnqueue : HostRole::kWork;
  if (!std::exchange(event.waits_for_stream, false)) return;
  for (uint32_t i = event.first_op; i < event.first_op + event.op_count; ++i)
    recording.ops[i].latency_ns = std::min(recording.ops[i].latency_ns, kEnqueuedLatencyNs);
}

double waves(double blocks, double slots) {
  return std::max(1.0, std::ceil(blocks / slots));
}

// It sums over the batch: in as many blocks, each of which has more to add up. By cuDNN's name.
bool is_weight_gradient(const model::Kernel& kernel) {
  return kernel.name.find("wgrad") != std::string::npos;
}

}  // namespace

StreamReplay replay(const StreamReplayInput& recording) {
  double busy_ns = 0;
  std::vector<double> ends = step_ends(recording, busy_ns);
  if (ends.empty()) return {};
  double steps = double(recording.steps);
  return {ends.back() / steps / kNsPerMs, busy_ns / steps / kNsPerMs};
}

double critical_path_ms(const StreamReplayInput& recording) {
  if (recording.steps == 0) return 0;
  uint32_t streams = 0;
  for (const StreamOp& op : recording.ops) streams = std::max(streams, op.stream + 1);
  std::vector<double> stream_end(streams), ends(recording.ops.size());
  double last = 0;
  for (size_t i = 0; i < recording.ops.size(); ++i) {
    const StreamOp& op = recording.ops[i];
    const double waited = op.waits_for < i ? ends[op.waits_for] : 0;
    ends[i] = stream_end[op.stream] = std::max(stream_end[op.stream], waited) + op.duration_ns;
    last = std::max(last, ends[i]);
  }
  return last / double(recording.steps) / kNsPerMs;
}

ReplayCheck check(const StreamReplayInput& recording) {
  return {recording.measured_step_ms, replay(recording).step_ms, recording.steps};
}

Estimate replay_estimate(const StreamReplayInput& recording) {
  double busy_ns = 0;
  std::vector<double> ends = step_ends(recording, busy_ns);
  if (ends.empty()) return {};
  double expected = ends.back() / double(ends.size()) / kNsPerMs;
  size_t block = std::max<size_t>(5, ends.size() / 10);
  std::vector<double> means;
  for (size_t i = block; i <= ends.size(); i += block)
    means.push_back((ends[i - 1] - (i > block ? ends[i - 1 - block] : 0)) / double(block) / kNsPerMs);
  if (means.size() < 3) return {expected, expected, expected};
  double variance = 0;
  for (double mean : means) variance += (mean - expected) * (mean - expected);
  double error = 1.645 * std::sqrt(variance / double(means.size() - 1) / double(means.size()));
  return beyond_run_to_run({expected - error, expected, expected + error});
}

void drop_synchronizations(StreamReplayInput& recording, const EventFilter& which) {
  for (HostEvent& event : recording.events) {
    if (!which(event)) continue;
    return_at_once(recording, event);
    event.cost_ns = std::min(event.cost_ns, kBlockedNs);
  }
}

void make_asynchronous(StreamReplayInput& recording, const EventFilter& which, double bandwidth_bytes_per_ns,
                       const std::vector<model::DeviceOp>& operations, double enqueue_cost_ns) {
  for (HostEvent& event : recording.events) {
    if (!which(event)) continue;
    return_at_once(recording, event);
    event.cost_ns = std::min(event.cost_ns, enqueue_cost_ns);
    for (uint32_t i = 0; i < event.op_count && bandwidth_bytes_per_ns > 0; ++i) {
      StreamOp& op = recording.ops[event.first_op + i];
      double bytes = double(operations[op.device_op].bytes);
      if (bytes > 0) op.duration_ns = std::min(op.duration_ns, bytes / bandwidth_bytes_per_ns);
    }
  }
}

void move_to_own_stream(StreamReplayInput& recording, const EventFilter& which) {
  uint32_t streams = 0;
  for (const StreamOp& op : recording.ops) streams = std::max(streams, op.stream + 1);
  std::vector<uint32_t> moved(streams, model::kNone);  // by stream: the copy that the next operation needs
  for (const HostEvent& event : recording.events) {
    const bool moves = which(event);
    for (uint32_t i = event.first_op; i < event.first_op + event.op_count; ++i) {
      StreamOp& op = recording.ops[i];
      if (moves) {
        moved[op.stream] = i;
        op.stream += streams;
        op.gap_ns = 0;
      } else if (op.waits_for == model::kNone) {
        op.waits_for = std::exchange(moved[op.stream], model::kNone);
      }
    }
  }
}

void copy_before_synchronizations(StreamReplayInput& recording, const EventFilter& which) {
  std::vector<HostEvent>& events = recording.events;
  // Between two events that enqueue something else, up to the last copy.
  for (size_t begin = 0, i = 0, end = 0; i <= events.size(); ++i) {
    const bool is_copy = i < events.size() && events[i].op_count > 0 && which(events[i]);
    if (is_copy) end = i + 1;
    if (is_copy || (i < events.size() && events[i].op_count == 0)) continue;
    if (end > begin) {
      const auto from = events.begin() + ptrdiff_t(begin), to = events.begin() + ptrdiff_t(end);
      const auto waits =
          std::stable_partition(from, to, [](const HostEvent& e) { return e.role != HostRole::kSync; });
      if (waits != to)
        std::for_each(from, waits, [&](HostEvent& event) { event.step = std::min(event.step, waits->step); });
    }
    begin = i + 1;
  }
}

void fetch_on_own_stream(StreamReplayInput& recording, const EventFilter& which) {
  uint32_t streams = 0;
  for (const StreamOp& op : recording.ops) streams = std::max(streams, op.stream + 1);
  std::vector<uint32_t> last(streams, model::kNone);  // by stream: what the next copy waits for
  for (const HostEvent& event : recording.events) {
    const bool moves = which(event);
    for (uint32_t i = event.first_op; i < event.first_op + event.op_count; ++i) {
      StreamOp& op = recording.ops[i];
      if (!moves) {
        last[op.stream] = i;
        continue;
      }
      if (op.waits_for == model::kNone) op.waits_for = last[op.stream];
      op.stream += streams;
    }
  }
}

void capture_launches(StreamReplayInput& recording, const Capture& capture) {
  const std::vector<uint32_t> long_gaps = long_gaps_by_place(recording, capture);
  const double kept = kept_ns(recording, capture);
  CapturedLaunches launches(recording, capture.with_optimizer);
  for (HostEvent& event : recording.events) {
    const auto place = launches.place_of(event);
    if (!place) continue;
    // Short gaps between launches are the framework's dispatch; a graph replays without them.
    const bool is_long = event.gap_ns > capture.longest_gap_ns;
    if (!is_long || long_gaps[*place] < capture.recurring_share * double(recording.steps)) event.gap_ns = 0;
    if (*place == 0) event.gap_ns += kept;
    event.cost_ns = 0;
    for (uint32_t i = 0; i < event.op_count; ++i) {
      StreamOp& op = recording.ops[event.first_op + i];
      op.latency_ns = 0;
      // Its stream is not free for the next one until then. Part of the recorded gap may be CUPTI's: no gain
      // is predicted from it.
      if (capture.kernel_gap_ns > 0) op.duration_ns += std::max(capture.kernel_gap_ns, op.gap_ns);
      op.gap_ns = 0;
    }
  }
}

double resident_blocks(const model::Kernel& kernel) {
  constexpr double kThreads = 2048;  // of a multiprocessor
  const double threads = std::max(1.0, double(kernel.block[0]) * kernel.block[1] * kernel.block[2]);
  return std::max(1.0, std::floor(kThreads / threads));
}

void scale_batch_on_device(StreamReplayInput& recording, double factor, const model::Run& run,
                           const model::Device& device, const BlocksAtOnce& blocks_at_once) {
  std::vector<double> growth;  // by kernel: there are few, and many operations of each
  for (const model::Kernel& kernel : run.kernels) {
    const double slots = std::max(1, device.multiprocessors) * blocks_at_once(kernel);
    const double waves_now = waves(kernel.blocks(), slots);
    const bool has_room = kernel.has_shape() && !is_weight_gradient(kernel);  // else none is assumed
    growth.push_back(has_room ? waves(kernel.blocks() * factor, slots) / waves_now : factor);
  }
  for (StreamOp& op : recording.ops) {
    const model::DeviceOp& original = device.operations[op.device_op];
    if (op.is_of_optimizer) continue;
    if (original.kernel == model::kNone) {
      if (original.bytes > 0) op.duration_ns *= factor;
      continue;
    }
    op.duration_ns *= growth.at(original.kernel);
  }
}

void scale_batch(StreamReplayInput& recording, double factor, const model::Run& run,
                 const model::Device& device, const BlocksAtOnce& blocks_at_once) {
  scale_batch_on_device(recording, factor, run, device, blocks_at_once);
  for (HostEvent& event : recording.events) {
    if (!event.is_input) continue;
    event.cost_ns *= factor;
    event.supply_ns *= factor;
  }
  for (SuppliedBatch& batch : recording.batches) {
    batch.made_in_ns *= factor;
    batch.handed_in_ns *= factor;
  }
}

void drop_calls(StreamReplayInput& recording, const EventFilter& which) {
  for (HostEvent& event : recording.events) {
    if (!which(event)) continue;
    event.cost_ns = 0;
    return_at_once(recording, event);
  }
}

void drop_with_operations(StreamReplayInput& recording, const EventFilter& which) {
  drop_calls(recording, which);
  for (const HostEvent& event : recording.events) {
    if (!which(event)) continue;
    for (uint32_t i = event.first_op; i < event.first_op + event.op_count; ++i)
      recording.ops[i].duration_ns = recording.ops[i].latency_ns = recording.ops[i].gap_ns = 0;
  }
}

void shorten_with_operations(StreamReplayInput& recording, const EventFilter& which, double kept) {
  if (kept <= 0) return drop_with_operations(recording, which);
  for (HostEvent& event : recording.events) {
    if (!which(event)) continue;
    event.cost_ns *= kept;
    for (uint32_t i = event.first_op; i < event.first_op + event.op_count; ++i) {
      recording.ops[i].duration_ns *= kept;
      recording.ops[i].latency_ns *= kept;
    }
  }
}

}  // namespace gpuwatch::predict
