// SPDX-License-Identifier: Apache-2.0
#include "analyzer/timeline/perfetto_writer.h"

#include <algorithm>
#include <protozero/pbf_writer.hpp>

namespace gpuwatch::timeline {
namespace {

using protozero::pbf_writer;

enum TraceField : uint32_t { kPacket = 1 };
enum PacketField : uint32_t {
  kTimestamp = 8,
  kSequenceId = 10,
  kTrackEvent = 11,
  kInternedData = 12,
  kSequenceFlags = 13,
  kTrackDescriptor = 60,
};
enum DescriptorField : uint32_t { kUuid = 1, kName = 2, kProcess = 3, kThread = 4, kParentUuid = 5 };
enum ProcessField : uint32_t { kPid = 1, kProcessName = 6 };
enum ThreadField : uint32_t { kPidOfThread = 1, kTid = 2, kThreadName = 5 };
enum EventField : uint32_t { kType = 9, kNameId = 10, kTrackUuid = 11, kFlowIds = 47 };
enum InternedField : uint32_t { kEventNames = 2 };
enum EventNameField : uint32_t { kInternedId = 1, kInternedName = 2 };
enum EventType : int32_t { kSliceBegin = 1, kSliceEnd = 2 };
enum SequenceFlags : uint32_t { kStateCleared = 1, kNeedsState = 2 };

constexpr uint32_t kSequence = 1;
constexpr size_t kBufferBytes = 1 << 20;

}  // namespace

Track PerfettoWriter::add_process(uint32_t pid, const std::string& name) {
  std::string process, fields;
  pbf_writer of_process(process), of_descriptor(fields);
  of_process.add_int32(kPid, int32_t(pid));
  of_process.add_string(kProcessName, name);
  of_descriptor.add_message(kProcess, process);
  return add_descriptor(fields);
}

Track PerfettoWriter::add_thread(uint32_t pid, uint32_t tid, const std::string& name) {
  std::string thread, fields;
  pbf_writer of_thread(thread), of_descriptor(fields);
  of_thread.add_int32(kPidOfThread, int32_t(pid));
  of_thread.add_int32(kTid, int32_t(tid));
  of_thread.add_string(kThreadName, name);
  of_descriptor.add_message(kThread, thread);
  return add_descriptor(fields);
}

Track PerfettoWriter::add_track(Track process, const std::string& name) {
  std::string fields;
  pbf_writer of_descriptor(fields);
  of_descriptor.add_uint64(kParentUuid, process);
  of_descriptor.add_string(kName, name);
  return add_descriptor(fields);
}

Track PerfettoWriter::add_descriptor(const std::string& fields) {
  std::string descriptor = fields, packet;
  pbf_writer(descriptor).add_uint64(kUuid, ++last_track_);
  pbf_writer(packet).add_message(kTrackDescriptor, descriptor);
  write(std::move(packet));
  return last_track_;
}

void PerfettoWriter::begin(Track track, model::Ns time, const std::string& name, Flow flow) {
  std::string fields, interned;
  pbf_writer event_writer(fields);
  const auto [at, is_new] = names_.try_emplace(name, names_.size() + 1);
  if (is_new) {
    std::string event_name;
    pbf_writer name_writer(event_name);
    name_writer.add_uint64(kInternedId, at->second);
    name_writer.add_string(kInternedName, name);
    pbf_writer(interned).add_message(kEventNames, event_name);
  }
  event_writer.add_int32(kType, kSliceBegin);
  event_writer.add_uint64(kNameId, at->second);
  if (flow != 0) event_writer.add_fixed64(kFlowIds, flow);
  event(track, time, fields, interned);
}

void PerfettoWriter::end(Track track, model::Ns time) {
  std::string fields;
  pbf_writer(fields).add_int32(kType, kSliceEnd);
  event(track, time, fields, "");
}

void PerfettoWriter::event(Track track, model::Ns time, const std::string& fields,
                           const std::string& interned) {
  std::string track_event = fields, packet;
  pbf_writer(track_event).add_uint64(kTrackUuid, track);
  pbf_writer packet_writer(packet);
  packet_writer.add_uint64(kTimestamp, uint64_t(std::max<model::Ns>(time, 0)));
  if (!interned.empty()) packet_writer.add_message(kInternedData, interned);
  packet_writer.add_message(kTrackEvent, track_event);
  write(std::move(packet));
}

void PerfettoWriter::write(std::string packet) {
  pbf_writer packet_writer(packet);
  packet_writer.add_uint32(kSequenceId, kSequence);
  packet_writer.add_uint32(kSequenceFlags, has_begun_ ? kNeedsState : kStateCleared);
  has_begun_ = true;
  pbf_writer(buffer_).add_message(kPacket, packet);
  if (buffer_.size() >= kBufferBytes) flush();
}

void PerfettoWriter::flush() {
  out_.write(buffer_.data(), std::streamsize(buffer_.size()));
  buffer_.clear();
}

void Lane::add(model::TimeSpan span, const std::string& name, Flow flow) {
  close(span.begin);
  const model::Ns most = open_ends_.empty() ? span.end : std::min(span.end, open_ends_.back());
  writer_.begin(track_, span.begin, name, flow);
  open_ends_.push_back(std::max(span.begin, most));
}

void Lane::close(model::Ns until) {
  for (; !open_ends_.empty() && open_ends_.back() <= until; open_ends_.pop_back())
    writer_.end(track_, open_ends_.back());
}

}  // namespace gpuwatch::timeline
