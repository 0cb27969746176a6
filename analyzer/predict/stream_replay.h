// SPDX-License-Identifier: Apache-2.0
// Replay of recorded steps on host and device: the host makes its calls in order with its own work between
// them, launches enqueue on streams, the device runs each stream in order with recorded durations, and the
// edges between them are kept: a synchronisation waits for the device, an operation waits for its launch, for
// the operation before it on its stream and for the other stream that it was seen to wait for.
//
// A what-if changes the recording (drop synchronisations, make copies asynchronous, ...) and replays it.
// Nanoseconds throughout; pure functions.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "analyzer/attribute/attribution.h"
#include "analyzer/model/run.h"
#include "analyzer/predict/prediction.h"

namespace gpuwatch::predict {

// What a host call does to the timeline.
enum class HostRole : uint8_t {
  kWork,        // takes its time, nothing more (allocation, loader, query, anything unknown)
  kEnqueue,     // enqueues its operations and returns
  kBlockOnOwn,  // enqueues and waits for its operation (a synchronous copy)
  kSync,        // waits for the device: what had been enqueued on `stream`, or everything
};

inline constexpr uint32_t kAllStreams = model::kNone;
inline constexpr size_t kQueueDepth = 1024;  // launches that a CUDA context takes before a launch blocks

struct HostEvent {
  double gap_ns = 0;   // host's own work since the event before
  double cost_ns = 0;  // inside the call, without waiting for the device
  // Of an input wait that was waited for: since the one before was over. Whoever made the batch was that
  // slow, and is no faster because the host comes earlier. 0 where `batch` tells more.
  double supply_ns = 0;
  uint32_t stream = kAllStreams;     // kSync
  uint32_t waits_op = model::kNone;  // kSync on an event: the operation that the event stands behind
  uint32_t first_op = 0, op_count = 0;
  uint32_t step = 0;
  uint32_t thread = model::kNone, call = model::kNone;  // of the process
  uint32_t batch = model::kNone;  // index into StreamReplayInput::batches; cost_ns is then without the wait
  HostRole role = HostRole::kWork;
  trace::OpClass op_class = trace::OpClass::Other;
  bool is_input = false;  // a wait for data: shortened by other what-ifs only
  // A copy that the driver stages: it begins when its stream has come to it, and the host waits for that.
  bool waits_for_stream = false;
};

// A batch that a loader's worker made: it is there when that worker has made it, which makes one at a time.
struct SuppliedBatch {
  uint32_t worker = 0;                // index into the recording's workers
  double made_in_ns = 0;              // __getitem__ and collate
  double handed_in_ns = 0;            // from then until the consumer can have it (pinned)
  uint32_t sent_with = model::kNone;  // the batch whose next() sent this one's index; kNone: sent before
  // The first of its worker is there so long before it is asked for, as recorded (negative: after).
  std::optional<double> lead_ns;
};

struct StreamOp {
  double duration_ns = 0;
  double latency_ns = 0;  // from the call to the earliest start, on an idle stream
  double gap_ns = 0;      // from the end of the operation before it on its stream to the earliest start
  uint32_t stream = 0;    // index into Process::streams
  uint32_t waits_for = model::kNone;  // op of another stream: by an event, else seen to be waited for
  uint32_t device_op = model::kNone;  // index into Device::operations
  bool is_of_optimizer = false;       // launched in an optimizer's step: as much work for any batch
};

struct StreamReplayInput {
  std::vector<HostEvent> events;
  std::vector<StreamOp> ops;  // in the order of their launches
  std::vector<SuppliedBatch> batches;
  uint32_t workers = 0;  // of all epochs over all loaders
  double tail_ns = 0;    // host work after the last event
  double measured_step_ms = 0;
  size_t steps = 0;
  double matched_share = 1;  // device time whose launch is known; the rest is not replayed
};

struct StreamReplay {
  double step_ms = 0;
  double device_busy_ms = 0;  // of it, at least one stream busy
};

// nullopt: no device timeline, or no launches that could be matched to it.
std::optional<StreamReplayInput> extract_streams(const model::Run& run,
                                                 const attribute::RankAttribution& rank);

StreamReplay replay(const StreamReplayInput& recording);

// The step if no operation had to wait for the host: each behind the one before it on its stream and behind
// the one that it waited for. No change of the host makes a step shorter.
double critical_path_ms(const StreamReplayInput& recording);

ReplayCheck check(const StreamReplayInput& recording);

// Expected step time with its spread over blocks of recorded steps.
Estimate replay_estimate(const StreamReplayInput& recording);

// What-ifs: each changes the recording in place.
using EventFilter = std::function<bool(const HostEvent&)>;
void drop_synchronizations(StreamReplayInput& recording, const EventFilter& which);
void make_asynchronous(StreamReplayInput& recording, const EventFilter& which, double bandwidth_bytes_per_ns,
                       const std::vector<model::DeviceOp>& operations, double enqueue_cost_ns);
// The copies of each stream run beside everything else; what followed one on its stream waits for it, as for
// an event.
void move_to_own_stream(StreamReplayInput& recording, const EventFilter& which);
// They are of the next batch, and enqueued before the host waits for this one: ahead of the synchronizations
// that follow its last launch, as is what brings that batch. For copies that do not block.
void copy_before_synchronizations(StreamReplayInput& recording, const EventFilter& which);
// The copies to the host of each stream run beside what follows on it; each begins when what was before it is
// done.
void fetch_on_own_stream(StreamReplayInput& recording, const EventFilter& which);
// A step's launches become a graph's, which takes no host time before each.
struct Capture {
  // Longer host time before a launch is the script's own. It stays where it is as long before the same launch
  // in so many of the steps; 0: all of it.
  double longest_gap_ns = 0, recurring_share = 0;
  double kernel_gap_ns = 0;    // between the graph's kernels
  bool with_optimizer = true;  // its launches, too
  // What preparing the graph's launch takes the host, in each step: as long as so many launches took before,
  // and this share of all of them.
  double kept_launches = 0, kept_share = 0;
};
void capture_launches(StreamReplayInput& recording, const Capture& capture);
// Kernels take whole waves of thread blocks longer, weight gradients and copies in proportion, the optimizer
// as long.
// blocks_at_once: of a kernel that a multiprocessor runs beside each other without slowing them down.
using BlocksAtOnce = std::function<double(const model::Kernel&)>;
void scale_batch_on_device(StreamReplayInput& recording, double factor, const model::Run& run,
                           const model::Device& device, const BlocksAtOnce& blocks_at_once);
// And with it what its batches take to be made and handed over, in proportion.
void scale_batch(StreamReplayInput& recording, double factor, const model::Run& run,
                 const model::Device& device, const BlocksAtOnce& blocks_at_once);
// As far as threads limit them; registers and shared memory allow fewer.
double resident_blocks(const model::Kernel& kernel);
void drop_calls(StreamReplayInput& recording, const EventFilter& which);
void drop_with_operations(StreamReplayInput& recording, const EventFilter& which);  // what they enqueued, too
// What lies in these calls of the host takes the share `kept` of its time; at 0 nothing of it remains.
void shorten_with_operations(StreamReplayInput& recording, const EventFilter& which, double kept);

}  // namespace gpuwatch::predict
