// SPDX-License-Identifier: Apache-2.0
// Writes trace files for tests with the ordinary FlatBufferBuilder, from the format's description alone: it
// shares no code with the recorder, so that a mistake in either shows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "libinject/trace/layout.h"
#include "libinject/trace/trace_generated.h"

namespace gpuwatch::test {

// Records of one thread, as they would follow each other in its chunks.
class Slots {
 public:
  Slots& host(uint16_t op, uint64_t begin, uint64_t end, uint32_t a = 0, uint32_t b = 0, uint8_t flags = 0);
  Slots& host(uint16_t op, uint64_t begin, uint64_t end, uint32_t a, uint32_t b,
              const trace::CallDetail& detail);
  Slots& host(uint16_t op, uint64_t begin, uint64_t end, uint32_t a, uint32_t b,
              const trace::EventDetail& detail);
  Slots& host(uint16_t op, uint64_t begin, uint64_t end, uint32_t a, uint32_t b,
              const trace::CpuDetail& detail);
  Slots& host(uint16_t op, uint64_t begin, uint64_t end, uint32_t a, uint32_t b,
              const trace::IoDetail& detail);
  Slots& host(uint16_t op, uint64_t begin, uint64_t end, uint32_t a, uint32_t b,
              const trace::RangeDetail& detail);
  Slots& device(trace::RecordKind kind, uint16_t stream, uint64_t begin, uint64_t end, uint32_t correlation,
                uint32_t b, uint8_t flags = 0);
  Slots& raw(const trace::Slot& slot);
  Slots& append(const Slots& other);
  size_t count() const { return bytes_.size() / sizeof(trace::Slot); }
  const std::vector<uint8_t>& bytes() const { return bytes_; }
  std::vector<Slots> split(size_t slots) const;  // into pieces of that many slots, records kept whole

 private:
  Slots& with_detail(trace::Slot slot, const void* detail);
  std::vector<uint8_t> bytes_;
};

struct ProcessOptions {
  uint32_t ordinal = 0;
  uint32_t pid = 100;
  uint32_t parent_pid = 1;
  uint32_t parent_ordinal = trace::kNoParent;
  trace::TickSource tick_source = trace::TickSource::Monotonic;
  uint64_t start_ticks = 1000;
  uint64_t start_realtime_ns = 0;
  std::string host = "testhost";
  int rank = -1;
  std::string run_id = "run-1";
};

struct LoaderOptions {
  uint32_t id = 1;
  uint32_t process = 0;
  int num_workers = 0;
  int batch_size = 8;
  int prefetch_factor = 2;
};

class TraceBuilder {
 public:
  explicit TraceBuilder(uint16_t major = trace::kMajorVersion, uint16_t minor = trace::kMinorVersion,
                        trace::StopReason stopped = trace::StopReason::Recording,
                        uint32_t page_bytes = trace::kPageBytes, uint32_t stopped_children = 0);

  uint32_t text(std::string_view text);  // id
  uint32_t text_with_id(uint32_t id, std::string_view text);
  uint16_t operation(std::string_view name, trace::OpClass op_class);  // op
  void process(const ProcessOptions& options);
  void clock(uint32_t process, uint64_t ticks, uint64_t monotonic_ns, uint64_t realtime_ns = 0,
             uint64_t device_ns = 0, uint32_t bracket_ns = 10);
  void loader(const LoaderOptions& options);
  void worker(uint32_t loader, uint32_t worker, uint32_t pid);
  void stream(uint16_t index, uint32_t process, uint32_t device, uint32_t stream);
  uint32_t kernel(std::string_view name, uint32_t grid_x = 1);  // KernelInfo.id

  // Any other table: create(FlatBufferBuilder&) returns its offset.
  template <typename Create>
  void table(Create create) {
    flatbuffers::FlatBufferBuilder builder;
    const auto root = create(builder);
    builder.FinishSizePrefixed(root, identifier(root));
    add_table({builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()});
  }
  void add_table(const std::vector<uint8_t>& bytes);  // a finished, size-prefixed table, right or wrong

  void chunk(uint32_t process, uint32_t thread, uint32_t sequence, const Slots& slots,
             const trace::OpenCalls& open = {});
  void thread(uint32_t process, uint32_t thread, const Slots& slots);  // in chunks of 200 slots
  void empty_pages(size_t pages);
  void frame(const std::vector<uint8_t>& bytes);  // onto the next page

  size_t pages();                // so far, tables written out
  std::vector<uint8_t> bytes();  // the whole file
  void save(const std::filesystem::path& path);

 private:
#define GW_IDENTIFIER(table, letters)                                \
  static const char* identifier(flatbuffers::Offset<trace::table>) { \
    return letters;                                                  \
  }
  GW_TRACE_TABLES(GW_IDENTIFIER)
#undef GW_IDENTIFIER
  void flush_tables();

  std::vector<uint8_t> file_;
  std::vector<uint8_t> tables_;
  uint32_t next_id_ = 1;
  uint16_t next_op_ = 1;
};

// A directory of its own for each test, removed at the end.
class ScratchDirectory {
 public:
  ScratchDirectory();
  ~ScratchDirectory();
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline bool says(std::string_view sentence, std::string_view part) {
  return sentence.find(part) != sentence.npos;
}

// One sentence, with this in it.
inline bool only_says(const std::vector<std::string>& sentences, std::string_view part) {
  return sentences.size() == 1 && says(sentences[0], part);
}

void write_file(const std::filesystem::path& path, const std::vector<uint8_t>& bytes);

}  // namespace gpuwatch::test
