// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/analyzer/trace_builder.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace gpuwatch::test {
namespace {

constexpr size_t kTableFrameBytes = 12 << 10;
constexpr size_t kSlotsAChunk = 200;

trace::Slot slot(trace::RecordKind kind, uint8_t flags, uint16_t op, uint64_t begin, uint64_t end, uint32_t a,
                 uint32_t b) {
  uint64_t span = end - begin;
  if (span > UINT32_MAX) {
    span /= 1024;
    flags |= trace::kLongSpan;
  }
  return {kind, flags, op, static_cast<uint32_t>(span), begin, a, b};
}

std::vector<uint8_t> padded_to_8(std::vector<uint8_t> bytes) {
  bytes.resize((bytes.size() + 7) / 8 * 8);
  return bytes;
}

}  // namespace

Slots& Slots::raw(const trace::Slot& slot) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&slot);
  bytes_.insert(bytes_.end(), bytes, bytes + sizeof slot);
  return *this;
}

Slots& Slots::with_detail(trace::Slot slot, const void* detail) {
  slot.mutate_flags(slot.flags() | 1);
  raw(slot);
  const auto* bytes = static_cast<const uint8_t*>(detail);
  bytes_.insert(bytes_.end(), bytes, bytes + sizeof slot);
  return *this;
}

Slots& Slots::host(uint16_t op, uint64_t begin, uint64_t end, uint32_t a, uint32_t b, uint8_t flags) {
  return raw(slot(trace::RecordKind::Host, flags, op, begin, end, a, b));
}
Slots& Slots::host(uint16_t op, uint64_t begin, uint64_t end, uint32_t a, uint32_t b,
                   const trace::CallDetail& detail) {
  return with_detail(slot(trace::RecordKind::Host, 0, op, begin, end, a, b), &detail);
}
Slots& Slots::host(uint16_t op, uint64_t begin, uint64_t end, uint32_t a, uint32_t b,
                   const trace::EventDetail& detail) {
  return with_detail(slot(trace::RecordKind::Host, 0, op, begin, end, a, b), &detail);
}
Slots& Slots::host(uint16_t op, uint64_t begin, uint64_t end, uint32_t a, uint32_t b,
                   const trace::CpuDetail& detail) {
  return with_detail(slot(trace::RecordKind::Host, 0, op, begin, end, a, b), &detail);
}
Slots& Slots::host(uint16_t op, uint64_t begin, uint64_t end, uint32_t a, uint32_t b,
                   const trace::IoDetail& detail) {
  return with_detail(slot(trace::RecordKind::Host, 0, op, begin, end, a, b), &detail);
}
Slots& Slots::host(uint16_t op, uint64_t begin, uint64_t end, uint32_t a, uint32_t b,
                   const trace::RangeDetail& detail) {
  return with_detail(slot(trace::RecordKind::Host, 0, op, begin, end, a, b), &detail);
}
Slots& Slots::device(trace::RecordKind kind, uint16_t stream, uint64_t begin, uint64_t end,
                     uint32_t correlation, uint32_t b, uint8_t flags) {
  return raw(slot(kind, flags, stream, begin, end, correlation, b));
}
Slots& Slots::append(const Slots& other) {
  bytes_.insert(bytes_.end(), other.bytes_.begin(), other.bytes_.end());
  return *this;
}

std::vector<Slots> Slots::split(size_t slots) const {
  std::vector<Slots> pieces(1);
  for (size_t at = 0; at < bytes_.size();) {
    const size_t size = (1 + (bytes_[at + 1] & trace::kDetailSlots)) * sizeof(trace::Slot);
    if (pieces.back().count() + size / sizeof(trace::Slot) > slots) pieces.emplace_back();
    auto& piece = pieces.back().bytes_;
    piece.insert(piece.end(), bytes_.begin() + static_cast<ptrdiff_t>(at),
                 bytes_.begin() + static_cast<ptrdiff_t>(at + size));
    at += size;
  }
  return pieces;
}

TraceBuilder::TraceBuilder(uint16_t major, uint16_t minor, trace::StopReason stopped, uint32_t page_bytes,
                           uint32_t stopped_children) {
  flatbuffers::FlatBufferBuilder builder;
  builder.FinishSizePrefixed(
      trace::CreateFileHeader(builder, major, minor, page_bytes, 1'700'000'000'000'000'000, 1000, 0, 0, 1, 0,
                              static_cast<uint32_t>(stopped), stopped_children,
                              static_cast<uint32_t>(trace::StopReason::FileSizeLimit)),
      trace::kHeaderIdentifier);
  frame({builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()});
}

uint32_t TraceBuilder::text_with_id(uint32_t id, std::string_view text) {
  table([&](auto& b) { return trace::CreateText(b, id, b.CreateString(text.data(), text.size())); });
  return id;
}

uint32_t TraceBuilder::text(std::string_view text) {
  return text_with_id(next_id_++, text);
}

uint16_t TraceBuilder::operation(std::string_view name, trace::OpClass op_class) {
  const uint16_t op = next_op_++;
  const uint32_t id = text(name);
  table([&](auto& b) { return trace::CreateOperation(b, op, op_class, id); });
  return op;
}

void TraceBuilder::process(const ProcessOptions& o) {
  const uint32_t host = text(o.host), script = text("train.py"), run_id = text(o.run_id);
  table([&](auto& b) {
    return trace::CreateProcess(b, o.ordinal, o.pid, o.parent_pid, o.parent_ordinal, o.tick_source,
                                o.start_ticks, o.start_realtime_ns, host, script, script, 0, run_id, o.rank,
                                o.rank, -1, 4);
  });
}

void TraceBuilder::clock(uint32_t process, uint64_t ticks, uint64_t monotonic_ns, uint64_t realtime_ns,
                         uint64_t device_ns, uint32_t bracket_ns) {
  table([&](auto& b) {
    return trace::CreateClockSample(b, process, ticks, monotonic_ns, realtime_ns, device_ns, bracket_ns);
  });
}

void TraceBuilder::loader(const LoaderOptions& o) {
  const uint32_t name = text("DataLoader"), place = text("train.py:88");
  table([&](auto& b) {
    return trace::CreateLoaderInfo(b, o.id, o.process, name, name, place, 0, 0, o.num_workers, o.batch_size,
                                   o.prefetch_factor, 0, 0, 1, 0, -1);
  });
}

void TraceBuilder::worker(uint32_t loader, uint32_t worker, uint32_t pid) {
  table([&](auto& b) { return trace::CreateWorkerInfo(b, loader, worker, pid, 0); });
}

void TraceBuilder::stream(uint16_t index, uint32_t process, uint32_t device, uint32_t stream) {
  table([&](auto& b) { return trace::CreateStreamInfo(b, index, process, device, 1, stream); });
}

uint32_t TraceBuilder::kernel(std::string_view name, uint32_t grid_x) {
  const uint32_t text_id = text(name), id = next_id_++;
  table([&](auto& b) { return trace::CreateKernelInfo(b, id, text_id, grid_x, 1, 1, 128, 1, 1, 0, 16); });
  return id;
}

void TraceBuilder::add_table(const std::vector<uint8_t>& bytes) {
  if (tables_.size() + bytes.size() > kTableFrameBytes) flush_tables();
  const auto padded = padded_to_8(bytes);
  tables_.insert(tables_.end(), padded.begin(), padded.end());
}

void TraceBuilder::flush_tables() {
  if (tables_.empty()) return;
  flatbuffers::FlatBufferBuilder builder;
  builder.ForceVectorAlignment(tables_.size(), 1, 8);
  const auto frames = builder.CreateVector(tables_);
  builder.FinishSizePrefixed(trace::CreateTableChunk(builder, 0, frames), trace::kTableChunkIdentifier);
  tables_.clear();
  frame({builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()});
}

void TraceBuilder::chunk(uint32_t process, uint32_t thread, uint32_t sequence, const Slots& slots,
                         const trace::OpenCalls& open) {
  flatbuffers::FlatBufferBuilder builder;
  const auto* data = reinterpret_cast<const trace::Slot*>(slots.bytes().data());
  const auto vector = builder.CreateVectorOfStructs(data, slots.count());
  builder.FinishSizePrefixed(trace::CreateChunk(builder, process, thread, sequence, &open, vector),
                             trace::kChunkIdentifier);
  frame({builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()});
}

void TraceBuilder::thread(uint32_t process, uint32_t thread, const Slots& slots) {
  uint32_t sequence = 0;
  for (const auto& piece : slots.split(kSlotsAChunk)) chunk(process, thread, sequence++, piece);
}

void TraceBuilder::empty_pages(size_t pages) {
  flush_tables();
  file_.resize(file_.size() + pages * trace::kPageBytes);
}

void TraceBuilder::frame(const std::vector<uint8_t>& bytes) {
  // No frame crosses a segment.
  const size_t left = trace::kSegmentBytes - file_.size() % trace::kSegmentBytes;
  if (bytes.size() > left) file_.resize(file_.size() + left);
  file_.insert(file_.end(), bytes.begin(), bytes.end());
  file_.resize((file_.size() + trace::kPageBytes - 1) / trace::kPageBytes * trace::kPageBytes);
}

size_t TraceBuilder::pages() {
  flush_tables();
  return file_.size() / trace::kPageBytes;
}

std::vector<uint8_t> TraceBuilder::bytes() {
  flush_tables();
  return file_;
}

void TraceBuilder::save(const std::filesystem::path& path) {
  write_file(path, bytes());
}

ScratchDirectory::ScratchDirectory() {
  std::string name = (std::filesystem::temp_directory_path() / "gpuwatch-test-XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("cannot make a scratch directory");
  path_ = name;
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void write_file(const std::filesystem::path& path, const std::vector<uint8_t>& bytes) {
  std::filesystem::remove(path);  // ext4 syncs a file that is truncated and written again: 7 ms a time
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace gpuwatch::test
