// SPDX-License-Identifier: Apache-2.0
// Writes Perfetto's native trace format: tracks of processes and threads, slices on them, arrows between
// slices. Field numbers are those of perfetto/trace/perfetto_trace.proto as published (package perfetto
// 0.59), against which tests read what is written. Names are stored once. Not thread safe; one per file.
#pragma once

#include <limits>
#include <ostream>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/model/run.h"

namespace gpuwatch::timeline {

using Track = uint64_t;
using Flow = uint64_t;  // an arrow: the slices that have it, in time order

class PerfettoWriter {
 public:
  explicit PerfettoWriter(std::ostream& out) : out_(out) {}
  ~PerfettoWriter() { flush(); }
  PerfettoWriter(const PerfettoWriter&) = delete;
  PerfettoWriter& operator=(const PerfettoWriter&) = delete;

  Track add_process(uint32_t pid, const std::string& name);
  Track add_thread(uint32_t pid, uint32_t tid, const std::string& name);
  Track add_track(Track process, const std::string& name);

  // A slice is over at the next end on its track that has no other begin; `flow` 0: none.
  void begin(Track track, model::Ns time, const std::string& name, Flow flow = 0);
  void end(Track track, model::Ns time);

 private:
  Track add_descriptor(const std::string& fields);
  void event(Track track, model::Ns time, const std::string& fields, const std::string& interned);
  void write(std::string packet);
  void flush();

  std::ostream& out_;
  std::string buffer_;
  std::unordered_map<std::string, uint64_t> names_;
  Track last_track_ = 0;
  bool has_begun_ = false;
};

// Slices of one track, added by their begin. What would outlast the slice around it ends with that, because
// Perfetto closes slices in the order of a stack. All are closed at the end.
class Lane {
 public:
  Lane(PerfettoWriter& writer, Track track) : writer_(writer), track_(track) {}
  ~Lane() { close(std::numeric_limits<model::Ns>::max()); }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  void add(model::TimeSpan span, const std::string& name, Flow flow = 0);

 private:
  void close(model::Ns until);

  PerfettoWriter& writer_;
  Track track_;
  std::vector<model::Ns> open_ends_;  // innermost last
};

}  // namespace gpuwatch::timeline
