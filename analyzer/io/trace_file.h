// SPDX-License-Identifier: Apache-2.0
// One trace file (.gwt), opened read-only: checks its header and lists its frames. Nothing in the file is
// trusted: every frame is copied out and verified (flatbuffers::Verifier) before any field of it is read.
//
// Copied with pread rather than mapped: a job that is still running, or a user who truncates the file, cannot
// change a byte between its check and its use, and cannot raise SIGBUS. A segment of 4 MiB is read at a time,
// so that memory does not grow with the file.
//
// Throws UserError when the file as a whole cannot be read; damage inside it is described in damage().
// Not thread safe; one object per thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libinject/trace/layout.h"
#include "libinject/trace/trace_generated.h"

namespace gpuwatch::io {

struct Header {
  uint16_t major = 0, minor = 0;
  uint64_t created_realtime_ns = 0;
  trace::StopReason stopped = trace::StopReason::Recording;
  uint32_t stopped_children = 0;  // forked children that could not be recorded to their end
  trace::StopReason child_stop = trace::StopReason::Recording;  // why the first of them could not
};

// A verified frame of hot records. `slot_count` is the published length when the file was listed; a running
// job may have added more since, which are left alone so that one reading of a file is one moment of it.
struct ChunkRef {
  uint64_t offset;
  uint32_t bytes;
  uint32_t process;
  uint32_t thread;
  uint32_t sequence;
  uint32_t slot_count;
};

struct TableFrameRef {
  uint64_t offset;
  uint32_t bytes;
};

struct ChunkView {
  std::span<const uint8_t> slots;  // slot_count * sizeof(trace::Slot) bytes; not aligned
  const trace::OpenCalls* open;    // may be null
};

class TraceFile {
 public:
  explicit TraceFile(std::string path);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  const std::string& path() const { return path_; }
  const Header& header() const { return header_; }
  uint64_t bytes() const { return file_bytes_; }
  const std::vector<ChunkRef>& chunks() const { return chunks_; }  // by process, thread, sequence
  const std::vector<TableFrameRef>& table_frames() const { return table_frames_; }
  std::vector<std::string> damage() const;  // one sentence each, beginning with the file's name

  // The contents of a frame, valid until the next call. Empty when it can no longer be read.
  ChunkView read(const ChunkRef& chunk);
  // Back-to-back tables, each to be verified by its reader (io/table_frame.h).
  std::span<const uint8_t> read(const TableFrameRef& frame);

  void report_damage(std::string_view sentence);

 private:
  void read_header();
  void list_frames();
  void list_segment(uint64_t segment, size_t first_page, size_t bytes);
  size_t list_frame(uint64_t offset, std::span<const uint8_t> rest);
  bool fetch(uint64_t offset, size_t bytes);

  std::string path_;
  int file_ = -1;
  uint64_t file_bytes_ = 0;
  Header header_;
  std::vector<ChunkRef> chunks_;
  std::vector<TableFrameRef> table_frames_;
  std::vector<std::string> damage_;
  uint64_t damage_left_out_ = 0;
  std::vector<uint64_t> buffer_;  // 8-aligned, as the verifier demands
};

}  // namespace gpuwatch::io
