// SPDX-License-Identifier: Apache-2.0
#include "analyzer/io/trace_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>

#include "analyzer/io/printable.h"
#include "analyzer/io/user_error.h"

namespace gpuwatch::io {
namespace {

// A file of nothing but broken pages must not become a report of a million sentences.
constexpr size_t kMaxDamageSentences = 20;

std::string in_words(int error) {
  return std::strerror(error);
}

uint32_t size_prefix(std::span<const uint8_t> bytes) {
  uint32_t prefix = 0;
  std::memcpy(&prefix, bytes.data(), sizeof prefix);
  return prefix;
}

bool has_identifier(std::span<const uint8_t> frame, const char* identifier, size_t letters = 4) {
  constexpr size_t kAt = 8;  // after the size prefix and the root offset
  return frame.size() >= kAt + 4 && std::memcmp(frame.data() + kAt, identifier, letters) == 0;
}

template <typename T>
const T* verified(std::span<const uint8_t> frame, const char* identifier) {
  flatbuffers::Verifier verifier(frame.data(), frame.size());
  if (!verifier.VerifySizePrefixedBuffer<T>(identifier)) return nullptr;
  return flatbuffers::GetSizePrefixedRoot<T>(frame.data());
}

// The verifier has checked that the vector lies in the frame, but knows nothing of the alignment of its
// elements: they are handed on as bytes.
std::span<const uint8_t> slot_bytes(const trace::Chunk& chunk) {
  const auto* slots = chunk.slots();
  if (!slots) return {};
  return {slots->Data(), size_t{slots->size()} * sizeof(trace::Slot)};
}

}  // namespace

TraceFile::TraceFile(std::string path) : path_(std::move(path)) {
  file_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO must not block us
  if (file_ < 0) {
    throw UserError(fmt::format("cannot open trace {}: {}; check the path and its permissions",
                                printable(path_), in_words(errno)));
  }
  try {
    read_header();
    list_frames();
  } catch (...) {
    close(file_);
    throw;
  }
}

TraceFile::~TraceFile() {
  close(file_);
}

bool TraceFile::fetch(uint64_t offset, size_t bytes) {
  buffer_.resize(std::max(buffer_.size(), (bytes + 7) / 8));
  auto* to = reinterpret_cast<char*>(buffer_.data());
  size_t done = 0;
  while (done < bytes) {
    const ssize_t got = pread(file_, to + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

void TraceFile::read_header() {
  const std::string name = printable(path_);
  struct stat status {};
  if (fstat(file_, &status) != 0 || !S_ISREG(status.st_mode)) {
    throw UserError(fmt::format("{} is not a regular file; name a trace file (.gwt) or its directory", name));
  }
  file_bytes_ = static_cast<uint64_t>(status.st_size);
  if (file_bytes_ == 0) throw UserError(fmt::format("trace {} is empty; record the job again", name));

  const size_t available = std::min<uint64_t>(file_bytes_, trace::kPageBytes);
  if (!fetch(0, available)) {
    throw UserError(
        fmt::format("cannot read trace {}: {}; copy it to a healthy disk", name, in_words(errno)));
  }
  const std::span<const uint8_t> page{reinterpret_cast<const uint8_t*>(buffer_.data()), available};
  if (!has_identifier(page, trace::kHeaderIdentifier)) {
    throw UserError(fmt::format("{} is not a gpuwatch trace; name a .gwt file or its directory", name));
  }
  const size_t size = size_t{size_prefix(page)} + sizeof(uint32_t);
  const auto* header =
      size <= available ? verified<trace::FileHeader>(page.first(size), trace::kHeaderIdentifier) : nullptr;
  if (!header) {
    throw UserError(
        fmt::format("trace {} is cut short or damaged in its first page; record the job again", name));
  }
  header_ = {header->major(),
             header->minor(),
             header->created_realtime_ns(),
             static_cast<trace::StopReason>(header->stopped()),
             header->stopped_children(),
             static_cast<trace::StopReason>(header->child_stop())};
  if (header_.major > trace::kMajorVersion) {
    throw UserError(
        fmt::format("trace {} has format version {}.{}, newer than the {}.x that this gpuwatch reads; "
                    "analyze it with the gpuwatch that recorded it, or a newer one",
                    name, header_.major, header_.minor, trace::kMajorVersion));
  }
  if (header_.major == 0 || header->page_bytes() != trace::kPageBytes) {
    throw UserError(
        fmt::format("trace {} has an impossible header (version {}.{}, pages of {} bytes); record the "
                    "job again",
                    name, header_.major, header_.minor, header->page_bytes()));
  }
}

void TraceFile::list_frames() {
  uint64_t segment = 0;
  while (segment < file_bytes_) {
    // Holes are never read: a file that claims a terabyte and holds a page costs a page.
    const off_t data = lseek(file_, static_cast<off_t>(segment), SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;
    if (data > 0) segment = static_cast<uint64_t>(data) / trace::kSegmentBytes * trace::kSegmentBytes;
    const uint64_t bytes = std::min<uint64_t>(trace::kSegmentBytes, file_bytes_ - segment);
    const size_t whole_pages = bytes / trace::kPageBytes * trace::kPageBytes;
    if (whole_pages < bytes)
      report_damage(fmt::format("the last page is cut short ({} bytes)", bytes - whole_pages));
    if (whole_pages > 0) {
      if (fetch(segment, whole_pages)) {
        list_segment(segment, segment == 0 ? 1 : 0, whole_pages);
      } else {
        report_damage(fmt::format("{} bytes at offset {} could not be read", whole_pages, segment));
      }
    }
    segment += trace::kSegmentBytes;
  }
  std::sort(chunks_.begin(), chunks_.end(), [](const ChunkRef& a, const ChunkRef& b) {
    return std::tie(a.process, a.thread, a.sequence, a.offset) <
           std::tie(b.process, b.thread, b.sequence, b.offset);
  });
}

void TraceFile::list_segment(uint64_t segment, size_t first_page, size_t bytes) {
  const std::span<const uint8_t> data{reinterpret_cast<const uint8_t*>(buffer_.data()), bytes};
  size_t damaged_pages = 0;  // a run of them is one sentence
  const auto end_of_run = [&](size_t at) {
    const uint64_t last = (segment + at) / trace::kPageBytes - 1;
    if (damaged_pages == 1) report_damage(fmt::format("page {} holds no valid frame", last));
    if (damaged_pages > 1) {
      report_damage(fmt::format("pages {} to {} hold no valid frame", last + 1 - damaged_pages, last));
    }
    damaged_pages = 0;
  };
  for (size_t at = first_page * trace::kPageBytes; at < bytes;) {
    const size_t pages = list_frame(segment + at, data.subspan(at));
    if (pages > 0) end_of_run(at);
    if (pages == 0) ++damaged_pages;
    at += std::max<size_t>(pages, 1) * trace::kPageBytes;
  }
  end_of_run(bytes);
}

// Returns the pages to step over: those of a good frame, one where nothing was laid down, 0 for damage.
size_t TraceFile::list_frame(uint64_t offset, std::span<const uint8_t> rest) {
  const uint32_t prefix = size_prefix(rest);
  if (prefix == 0) return 1;  // claimed and never laid down, or never claimed
  const size_t size = size_t{prefix} + sizeof prefix;
  const size_t pages = (size + trace::kPageBytes - 1) / trace::kPageBytes;
  if (pages > trace::kMaxFramePages || size > rest.size()) return 0;
  const auto frame = rest.first(size);
  if (const auto* chunk = verified<trace::Chunk>(frame, trace::kChunkIdentifier)) {
    const size_t slots = slot_bytes(*chunk).size() / sizeof(trace::Slot);
    chunks_.push_back({offset, static_cast<uint32_t>(size), chunk->process(), chunk->thread(),
                       chunk->sequence(), static_cast<uint32_t>(slots)});
    return pages;
  }
  if (verified<trace::TableChunk>(frame, trace::kTableChunkIdentifier)) {
    table_frames_.push_back({offset, static_cast<uint32_t>(size)});
    return pages;
  }
  // A later minor version may add kinds of frames; their identifiers begin like ours.
  if (header_.minor > trace::kMinorVersion && has_identifier(frame, "GWT", 3)) return pages;
  return 0;
}

ChunkView TraceFile::read(const ChunkRef& chunk) {
  if (!fetch(chunk.offset, chunk.bytes)) return {};
  const std::span<const uint8_t> frame{reinterpret_cast<const uint8_t*>(buffer_.data()), chunk.bytes};
  const auto* root = verified<trace::Chunk>(frame, trace::kChunkIdentifier);
  if (!root) return {};
  const auto slots = slot_bytes(*root);
  const size_t listed = size_t{chunk.slot_count} * sizeof(trace::Slot);
  return {slots.first(std::min(slots.size(), listed)), root->open()};
}

std::span<const uint8_t> TraceFile::read(const TableFrameRef& frame) {
  if (!fetch(frame.offset, frame.bytes)) return {};
  const std::span<const uint8_t> bytes{reinterpret_cast<const uint8_t*>(buffer_.data()), frame.bytes};
  const auto* root = verified<trace::TableChunk>(bytes, trace::kTableChunkIdentifier);
  if (!root || !root->frames()) return {};
  return {root->frames()->Data(), root->frames()->size()};
}

std::vector<std::string> TraceFile::damage() const {
  std::vector<std::string> sentences = damage_;
  if (damage_left_out_ > 0) {
    sentences.push_back(fmt::format("{}: {} more damaged places", printable(path_), damage_left_out_));
  }
  return sentences;
}

void TraceFile::report_damage(std::string_view sentence) {
  if (damage_.size() < kMaxDamageSentences) {
    damage_.push_back(fmt::format("{}: {}", printable(path_), sentence));
  } else {
    ++damage_left_out_;
  }
}

}  // namespace gpuwatch::io
