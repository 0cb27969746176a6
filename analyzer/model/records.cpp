// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <vector>

namespace gpuwatch::model {
namespace {

using trace::DetailKind;
using trace::OpClass;
using trace::RecordKind;

static_assert(sizeof(trace::Slot) == 24 && sizeof(trace::CallDetail) == 24 &&
              sizeof(trace::CpuDetail) == 24 && sizeof(trace::IoDetail) == 24 &&
              sizeof(trace::ShapeDetail) == 24 && sizeof(trace::EventDetail) == 24);

// A slot as it lies in the file, without the accessors of the generated struct.
struct RawSlot {
  RecordKind kind;
  uint8_t flags;
  uint16_t op;
  uint32_t span;
  uint64_t start;
  uint32_t a;
  uint32_t b;
};
static_assert(sizeof(RawSlot) == sizeof(trace::Slot));

constexpr uint64_t kLongUnit = 1024;

uint64_t length(const RawSlot& slot) {
  return slot.flags & trace::kLongSpan ? uint64_t{slot.span} * kLongUnit : slot.span;
}

uint64_t end_of(const RawSlot& slot) {
  const uint64_t end = slot.start + length(slot);
  return end < slot.start ? UINT64_MAX : end;
}

class Decoder {
 public:
  Decoder(const RecordContext& context, Process& process) : context_(context), process_(process) {
    for (size_t i = 0; i < process.devices.size(); ++i) device_index(process.devices[i].ordinal);
  }

  void begin_thread(uint32_t tid, size_t slots);
  void chunk(const io::ChunkRef& ref);
  void place_behind_launches();  // when all is decoded, before operations are sorted
  uint64_t records() const { return records_; }

 private:
  bool counts_descriptors(uint16_t operation) const;
  bool host(const RawSlot& slot, const uint8_t* detail);
  bool range(const RawSlot& slot, const uint8_t* detail);
  void device(const RawSlot& slot);
  void stack(const RawSlot& slot);
  void keep_io_counts(const uint8_t* detail);
  void open_calls(const trace::OpenCalls& open);
  uint32_t keep_detail(OpClass op_class, const uint8_t* detail);
  uint16_t operation(uint16_t op) const {
    return op < context_.tables.operations.size() ? context_.tables.operations[op] : 0;
  }
  uint32_t text(uint32_t id) const {
    const auto found = context_.tables.texts.find(id);
    return found == context_.tables.texts.end() ? 0 : found->second;
  }
  uint16_t stream(uint16_t index);
  Device& device_of(uint16_t stream);
  uint32_t device_index(uint32_t ordinal);
  // More steps than a clock is ever set are a damaged file's.
  bool is_stepped() const {
    return context_.device_clock.steps() > 0 && context_.device_clock.steps() <= kMostSteps;
  }

  static constexpr size_t kMostSteps = 32;
  struct RawTimes {
    uint64_t begin, end;
  };
  std::vector<std::vector<RawTimes>> raw_times_;  // of each device's operations, in their order; if stepped
  const RecordContext& context_;
  Process& process_;
  Thread* thread_ = nullptr;
  LinearClock::Cursor begin_cursor_, end_cursor_;
  DeviceClock::Cursor device_begin_cursor_, device_end_cursor_;
  std::vector<uint32_t> device_of_stream_;
  uint64_t records_ = 0;
};

void Decoder::begin_thread(uint32_t tid, size_t slots) {
  thread_ = &process_.threads.emplace_back();
  thread_->tid = tid;
  thread_->calls.reserve(slots);  // at most what the file holds
  const auto name = context_.process_tables.thread_names.find(tid);
  if (name != context_.process_tables.thread_names.end()) thread_->name = name->second;
}

void Decoder::chunk(const io::ChunkRef& ref) {
  const auto view = context_.file.read(ref);
  const uint8_t* at = view.slots.data();
  const uint8_t* const end = at + view.slots.size();
  while (at < end) {
    RawSlot slot;
    std::memcpy(&slot, at, sizeof slot);
    const size_t details = slot.flags & trace::kDetailSlots;
    const uint8_t* const next = at + (1 + details) * sizeof slot;
    if (next > end || slot.kind > RecordKind::WorkerStack) {
      context_.file.report_damage(fmt::format("a record of thread {} in page {} is damaged", ref.thread,
                                              ref.offset / trace::kPageBytes));
      break;
    }
    if (slot.kind == RecordKind::Host) {
      const bool is_call = host(slot, details ? at + sizeof slot : nullptr);
      if (is_call && details == 2) keep_io_counts(at + 2 * sizeof slot);
    } else if (slot.kind >= RecordKind::Stack) {
      stack(slot);
    } else if (slot.kind <= RecordKind::GraphRun && slot.kind != RecordKind::None) {
      device(slot);
    }
    records_ += slot.kind != RecordKind::None;
    at = next;
  }
  thread_->open_calls.clear();  // only those of the last chunk count
  if (view.open) open_calls(*view.open);
}

// A record of these has the number of descriptors that were asked about: of none, it is a sleep. So
// time.sleep() of Python 3.10 and older, and of many native programs, waits.
bool Decoder::counts_descriptors(uint16_t operation) const {
  const std::string& name = context_.operations[operation].name;
  return name.ends_with("select") || name.ends_with("poll") || name.ends_with("poll_chk");
}

// False: it was a range.
bool Decoder::host(const RawSlot& slot, const uint8_t* detail) {
  HostCall call;
  if (range(slot, detail)) return false;
  call.begin = context_.host_clock.map(slot.start, begin_cursor_);
  call.end = context_.host_clock.map(end_of(slot), end_cursor_);
  call.correlation_or_object = slot.a;
  call.argument = slot.b;
  call.operation = operation(slot.op);
  call.flags = slot.flags;
  // An operation index is always valid: unknown ones are entry 0.
  call.op_class = context_.operations[call.operation].op_class;
  if (call.op_class == OpClass::Poll && slot.a == 0 && counts_descriptors(call.operation))
    call.op_class = OpClass::Sleep;
  if (detail) call.detail = keep_detail(call.op_class, detail);
  thread_->calls.push_back(call);
  return true;
}

// Narrow types were stored by their low bits.
std::optional<int64_t> whole_number(const trace::RangeDetail& about) {
  enum : uint8_t { kUint64 = 1, kInt64 = 2, kUint32 = 4, kInt32 = 5 };  // nvtxPayloadType_t
  switch (about.payload_type()) {
    case kUint64:
    case kInt64:
      return static_cast<int64_t>(about.payload());
    case kUint32:
      return static_cast<uint32_t>(about.payload());
    case kInt32:
      return static_cast<int32_t>(about.payload());
    default:
      return std::nullopt;
  }
}

// Ranges are no calls: they nest as the job likes, and a call that holds others is not explained by one.
bool Decoder::range(const RawSlot& slot, const uint8_t* detail) {
  const OpClass op_class = context_.operations[operation(slot.op)].op_class;
  if (!is_range(op_class)) return false;
  thread_->ranges.push_back({context_.host_clock.map(slot.start, begin_cursor_),
                             context_.host_clock.map(end_of(slot), end_cursor_), text(slot.b), text(slot.a),
                             op_class == OpClass::ProcessRange, op_class == OpClass::Mark});
  if (!detail) return true;
  trace::RangeDetail about;
  std::memcpy(&about, detail, sizeof about);
  thread_->ranges.back().category = text(about.category_name());
  thread_->ranges.back().payload = whole_number(about);
  return true;
}

uint32_t Decoder::keep_detail(OpClass op_class, const uint8_t* detail) {
  const auto keep = [detail](auto& details) {
    std::memcpy(&details.emplace_back(), detail, sizeof details.back());
    return static_cast<uint32_t>(details.size() - 1);
  };
  switch (detail_kind(op_class)) {
    case DetailKind::kCall:
      return keep(thread_->call_details);
    case DetailKind::kEvent:
      return keep(thread_->event_details);
    case DetailKind::kCpu:
      return keep(thread_->cpu_details);
    case DetailKind::kIo: {
      const uint32_t index = keep(thread_->io_details);
      auto& io = thread_->io_details.back();
      io.mutate_path(text(io.path()));
      return index;
    }
    case DetailKind::kShape:
      return keep(thread_->shape_details);
    case DetailKind::kRange:  // see range()
    case DetailKind::kNone:   // a newer recorder's: a minor version may add details
      break;
  }
  return kNone;
}

// Stands behind the CpuDetail of the call that was decoded last.
void Decoder::keep_io_counts(const uint8_t* detail) {
  const HostCall& call = thread_->calls.back();
  if (detail_kind(call.op_class) != DetailKind::kCpu) return;
  thread_->io_counts_of_cpu_detail.resize(call.detail + 1, kNone);
  thread_->io_counts_of_cpu_detail[call.detail] = static_cast<uint32_t>(thread_->io_counts.size());
  std::memcpy(&thread_->io_counts.emplace_back(), detail, sizeof(trace::IoCounts));
}

void Decoder::stack(const RawSlot& slot) {
  const Ns time = context_.host_clock.map(slot.start);
  if (slot.kind == RecordKind::Stack) {
    thread_->stacks.push_back({time, text(slot.a)});
  } else {
    const Ns end = context_.host_clock.map(end_of(slot));
    const bool interprets = context_.operations[operation(slot.op)].name == "interpreting";
    thread_->worker_stacks.push_back({time, std::max<Ns>(0, end - time), text(slot.a), slot.b, interprets});
  }
}

uint32_t Decoder::device_index(uint32_t ordinal) {
  auto& devices = process_.devices;
  const auto found =
      std::find_if(devices.begin(), devices.end(), [&](const Device& d) { return d.ordinal == ordinal; });
  if (found != devices.end()) return static_cast<uint32_t>(found - devices.begin());
  if (devices.size() >= kMaxDevices) return 0;
  devices.emplace_back().ordinal = ordinal;
  return static_cast<uint32_t>(devices.size() - 1);
}

// Operations on a stream that left no description (its table was lost) still belong to the first device.
uint16_t Decoder::stream(uint16_t index) {
  auto& known = context_.process_tables.stream_index;
  if (index < known.size() && known[index] != kNoStream) return known[index];
  if (known.size() <= index) known.resize(size_t{index} + 1, kNoStream);
  const size_t added = process_.streams.size();
  if (added >= kNoStream) return 0;
  process_.streams.push_back({process_.devices.empty() ? 0 : process_.devices[0].ordinal, 0, index});
  return known[index] = static_cast<uint16_t>(added);
}

Device& Decoder::device_of(uint16_t stream) {
  while (device_of_stream_.size() <= stream) {
    device_of_stream_.push_back(device_index(process_.streams[device_of_stream_.size()].device));
  }
  return process_.devices[device_of_stream_[stream]];
}

void Decoder::device(const RawSlot& slot) {
  DeviceOp op;
  op.begin = context_.device_clock.map(slot.start, device_begin_cursor_);
  op.end = std::max(op.begin, context_.device_clock.map(end_of(slot), device_end_cursor_));
  op.correlation = slot.a;
  op.kind = slot.kind;
  op.flags = slot.flags;
  op.stream = stream(slot.op);
  if (slot.kind == RecordKind::Kernel) {
    const auto found = context_.tables.kernels.find(slot.b);
    if (found != context_.tables.kernels.end()) op.kernel = found->second;
  } else if (slot.kind != RecordKind::GraphRun) {
    op.bytes = slot.flags & trace::kScaledBytes ? uint64_t{slot.b} << 10 : slot.b;
  }
  Device& device = device_of(op.stream);
  device.operations.push_back(op);
  if (!is_stepped()) return;
  raw_times_.resize(process_.devices.size());
  raw_times_[static_cast<size_t>(&device - process_.devices.data())].push_back({slot.start, end_of(slot)});
}

// The same device time may stand for two moments when the clock was set back. No work begins before the call
// that launched it.
void Decoder::place_behind_launches() {
  if (!is_stepped()) return;
  std::unordered_map<uint32_t, Ns> launched;
  for (const auto& thread : process_.threads) {
    for (const auto& call : thread.calls) {
      // A class that is newer than this reader is Other, and may enqueue.
      const bool may_enqueue = enqueues(call.op_class) || call.op_class == OpClass::Other;
      if (!may_enqueue || call.correlation_or_object == 0) continue;
      const auto [at, is_new] = launched.emplace(call.correlation_or_object, call.begin);
      if (!is_new) at->second = std::min(at->second, call.begin);
    }
  }
  constexpr Ns kClockErrorNs = 100'000;  // far below any step that makes an epoch of its own ambiguous
  for (size_t d = 0; d < raw_times_.size(); ++d) {
    auto& operations = process_.devices[d].operations;
    for (size_t i = 0; i < raw_times_[d].size(); ++i) {
      const auto call = launched.find(operations[i].correlation);
      if (operations[i].correlation == 0 || call == launched.end()) continue;
      const RawTimes& raw = raw_times_[d][i];
      operations[i].begin = context_.device_clock.map_after(raw.begin, call->second - kClockErrorNs);
      const Ns end = context_.device_clock.map_after(raw.end, operations[i].begin);
      operations[i].end = std::max(operations[i].begin, end);
    }
  }
}

void Decoder::open_calls(const trace::OpenCalls& open) {
  const uint32_t kept = std::min<uint32_t>(open.depth(), open.calls()->size());
  for (uint32_t i = 0; i < kept; ++i) {
    const auto* call = open.calls()->Get(i);
    if (call->since() == 0) continue;
    thread_->open_calls.push_back({context_.host_clock.map(call->since()), operation(call->op()), call->a()});
  }
}

bool outer_first(const HostCall& a, const HostCall& b) {
  return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
}

}  // namespace

void order_calls(std::vector<HostCall>& calls) {
  // Records are written when a call ends: an outer call stands behind its inner ones.
  if (!std::is_sorted(calls.begin(), calls.end(), outer_first)) {
    std::stable_sort(calls.begin(), calls.end(), outer_first);
  }
  // A long span is kept in units of 1024 ticks, rounded down, so an outer call may seem to end a little
  // before its last inner one. Its true end is not before that.
  constexpr Ns kSlipNs = 2000;
  std::vector<HostCall*> open;
  for (auto& call : calls) {
    while (!open.empty() && open.back()->end <= call.begin) open.pop_back();
    for (auto* outer : open) {
      if ((outer->flags & trace::kLongSpan) && call.end > outer->end && call.end - outer->end < kSlipNs) {
        outer->end = call.end;
      }
    }
    constexpr size_t kDeepest = 64;  // deeper nesting is not made by any hook
    if (open.size() < kDeepest) open.push_back(&call);
  }
}

void order_ranges(std::vector<Range>& ranges) {
  std::stable_sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
}

void note_extent(Process& process) {
  for (const auto& thread : process.threads) {
    const auto begins_at = [&](Ns begin) {
      process.start = process.start == 0 ? begin : std::min(process.start, begin);
    };
    if (!thread.calls.empty()) begins_at(thread.calls.front().begin);
    if (!thread.ranges.empty()) begins_at(thread.ranges.front().begin);
    for (const auto& call : thread.calls) process.last_seen = std::max(process.last_seen, call.end);
    for (const auto& range : thread.ranges) process.last_seen = std::max(process.last_seen, range.end);
  }
  for (const auto& device : process.devices) {
    for (const auto& op : device.operations) process.last_seen = std::max(process.last_seen, op.end);
  }
  if (!process.machine_samples.empty())
    process.last_seen = std::max(process.last_seen, process.machine_samples.back().time);
  process.last_seen = std::max(process.last_seen, process.start);
}

uint64_t decode_records(const RecordContext& context, std::span<const io::ChunkRef> chunks,
                        Process& process) {
  Decoder decoder(context, process);
  for (size_t first = 0; first < chunks.size();) {
    size_t last = first, slots = 0;
    while (last < chunks.size() && chunks[last].thread == chunks[first].thread)
      slots += chunks[last++].slot_count;
    decoder.begin_thread(chunks[first].thread, slots);
    for (size_t i = first; i < last; ++i) decoder.chunk(chunks[i]);
    first = last;
  }
  for (auto& thread : process.threads) {
    order_calls(thread.calls);
    order_ranges(thread.ranges);
    std::stable_sort(thread.stacks.begin(), thread.stacks.end(),
                     [](const StackAt& a, const StackAt& b) { return a.begin < b.begin; });
  }
  decoder.place_behind_launches();
  for (auto& device : process.devices) {
    const auto earlier = [](const DeviceOp& a, const DeviceOp& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
    };
    if (!std::is_sorted(device.operations.begin(), device.operations.end(), earlier)) {
      std::stable_sort(device.operations.begin(), device.operations.end(), earlier);
    }
  }
  return decoder.records();
}

}  // namespace gpuwatch::model
