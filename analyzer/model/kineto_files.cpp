// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/kineto_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <unordered_map>

#include "analyzer/io/printable.h"
#include "analyzer/io/user_error.h"

namespace gpuwatch::model {
namespace {

using io::KinetoEvent;
using io::KinetoTrace;

// Ranks are profiled in the same steps; clocks of machines in one cluster differ by less.
constexpr int64_t kSameJobNs = 600'000'000'000;
constexpr int64_t kFurthestNs = int64_t{100} * 86400 * 1'000'000'000;  // between recordings of one process
constexpr int64_t kRobust = 20;  // first and last 5% of events may have wrong times

struct Span {
  int64_t begin = 0, end = 0;
  bool overlaps(const Span& other) const { return begin < other.end && other.begin < end; }
  int64_t apart(const Span& other) const { return std::max(begin - other.end, other.begin - end); }
};

// When most of the events began, in CLOCK_REALTIME.
Span span_of(const KinetoTrace& trace) {
  std::vector<int64_t> begins;
  for (const KinetoEvent& event : trace.events) begins.push_back(event.begin_ns + trace.base_ns);
  if (begins.empty()) return {};
  const auto cut = static_cast<std::ptrdiff_t>(begins.size() / kRobust);
  std::ranges::nth_element(begins, begins.begin() + cut);
  const int64_t begin = begins[static_cast<size_t>(cut)];
  std::ranges::nth_element(begins, begins.end() - 1 - cut);
  return {begin, begins[begins.size() - 1 - static_cast<size_t>(cut)]};
}

struct Recording {
  KinetoFile file;
  Span span;
  std::string host;
  const KinetoTrace& trace() const { return file.trace; }
};

// tensorboard_trace_handler names a file <host>_<pid>.<time>.pt.trace.json.
std::string host_of(const KinetoFile& file) {
  if (!file.trace.host.empty()) return file.trace.host;
  const std::string name = file.path.substr(file.path.find_last_of('/') + 1);
  const std::string mark = fmt::format("_{}.", file.trace.pid);
  const size_t at = name.find(mark);
  return at == std::string::npos || name.find(".pt.trace.json") == std::string::npos ? ""
                                                                                     : name.substr(0, at);
}

[[noreturn]] void refuse(const Recording& a, const Recording& b, const std::string& why) {
  throw io::UserError(fmt::format("{} and {} are {}; analyze them apart", io::printable(a.file.path),
                                  io::printable(b.file.path), why));
}

bool is_same_process(const Recording& a, const Recording& b) {
  const bool is_known = a.trace().pid != 0 && (a.host.empty() || b.host.empty() || a.host == b.host);
  return is_known && a.trace().pid == b.trace().pid && a.trace().rank == b.trace().rank;
}

std::string of_process(const Recording& recording) {
  return fmt::format("{}{}{}", recording.trace().pid, recording.host.empty() ? "" : " on ",
                     io::printable(recording.host));
}

std::string duration_words(int64_t ns) {
  const double minutes = double(ns) / 60e9;
  return minutes < 120       ? fmt::format("{:.0f} minutes", minutes)
         : minutes < 48 * 60 ? fmt::format("{:.0f} hours", minutes / 60)
                             : fmt::format("{:.0f} days", minutes / 60 / 24);
}

void check_pair(const Recording& a, const Recording& b) {
  const KinetoTrace &x = a.trace(), &y = b.trace();
  if (x.world_size > 0 && y.world_size > 0 && x.world_size != y.world_size)
    refuse(a, b,
           fmt::format("of different jobs: one has {} ranks, the other {}", x.world_size, y.world_size));
  if (x.events.size() == y.events.size() && a.span.begin == b.span.begin && a.span.end == b.span.end &&
      x.pid == y.pid && x.rank == y.rank)
    refuse(a, b, "the same recording");
  if (is_same_process(a, b) && a.span.apart(b.span) > kFurthestNs)
    refuse(
        a, b,
        fmt::format("of different jobs: they were recorded {} apart", duration_words(a.span.apart(b.span))));
  if (x.rank < 0 || x.rank != y.rank) return;
  if (is_same_process(a, b) && a.span.overlaps(b.span)) refuse(a, b, "of one process and of the same time");
  if (!is_same_process(a, b))
    refuse(a, b,
           fmt::format("of different jobs: both are rank {}, of process {} and of process {}", x.rank,
                       of_process(a), of_process(b)));
}

// Files of one process, in time order.
using ProcessFiles = std::vector<Recording>;

// Each process was profiled at a time at which another one was, too.
void check_times(const std::vector<ProcessFiles>& processes) {
  for (size_t i = 1; i < processes.size(); ++i) {
    int64_t apart = std::numeric_limits<int64_t>::max();
    for (const Recording& first : processes[0])
      for (const Recording& other : processes[i]) apart = std::min(apart, first.span.apart(other.span));
    if (apart > kSameJobNs)
      refuse(processes[0].front(), processes[i].front(),
             fmt::format("of different jobs, or of different parts of one: they were recorded {} apart",
                         duration_words(apart)));
  }
}

std::vector<ProcessFiles> by_process(std::vector<KinetoFile> files) {
  std::vector<Recording> all;
  for (KinetoFile& file : files) {
    const Span span = span_of(file.trace);
    std::string host = host_of(file);
    all.push_back({std::move(file), span, std::move(host)});
  }
  std::ranges::stable_sort(all, {}, [](const Recording& r) { return r.span.begin; });
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = i + 1; j < all.size(); ++j) check_pair(all[i], all[j]);
  std::vector<ProcessFiles> processes;
  for (Recording& recording : all) {
    const auto same = std::ranges::find_if(processes, [&](const ProcessFiles& known) {
      return is_same_process(known.back(), recording) && !known.back().span.overlaps(recording.span);
    });
    if (same == processes.end())
      processes.emplace_back().push_back(std::move(recording));
    else
      same->push_back(std::move(recording));
  }
  std::ranges::stable_sort(processes, {}, [](const ProcessFiles& p) { return p.front().trace().rank; });
  check_times(processes);
  return processes;
}

// Adds the files of later recordings to the first one's trace.
class Joined {
 public:
  explicit Joined(KinetoTrace first) : trace_(std::move(first)) {
    for (size_t i = 0; i < trace_.names.size(); ++i) ids_.emplace(trace_.names[i], static_cast<uint32_t>(i));
    last_end_ = end_of(trace_);
    note_last_correlation(trace_);
  }

  void add(KinetoTrace next) {
    const int64_t shift = next.base_ns - trace_.base_ns;
    const int64_t first_begin = begin_of(next) + shift, next_end = end_of(next) + shift;
    // AMD's ids start again with each recording.
    const uint32_t shift_ids = last_correlation_;
    std::vector<uint32_t> names;
    for (std::string& name : next.names) names.push_back(name_id(std::move(name)));
    note_last_correlation(next, shift_ids);
    for (KinetoEvent event : next.events) {
      event.begin_ns += shift;
      event.name = names[event.name];
      event.correlation = shifted(event.correlation, shift_ids);
      trace_.events.push_back(event);
    }
    if (first_begin > last_end_) trace_.gaps.emplace_back(last_end_, first_begin);
    last_end_ = std::max(last_end_, next_end);
    trace_.file_bytes += next.file_bytes;
    trace_.events_read += next.events_read;
    trace_.events_without_time += next.events_without_time;
    trace_.resolution_ns = std::max(trace_.resolution_ns, next.resolution_ns);
    trace_.thread_names.merge(next.thread_names);
    if (trace_.devices.empty()) trace_.devices = std::move(next.devices);
  }

  KinetoTrace take() { return std::move(trace_); }

 private:
  // 0 where ids are used up: such an event has no launch.
  static uint32_t shifted(uint32_t id, uint32_t by) {
    return id == 0 || id > std::numeric_limits<uint32_t>::max() - by ? 0 : id + by;
  }
  void note_last_correlation(const KinetoTrace& trace, uint32_t by = 0) {
    for (const KinetoEvent& event : trace.events)
      last_correlation_ = std::max(last_correlation_, shifted(event.correlation, by));
  }
  // Of what most of the events did, as events with wrong times are left out later.
  static int64_t begin_of(const KinetoTrace& trace) { return extreme(trace, true); }
  static int64_t end_of(const KinetoTrace& trace) { return extreme(trace, false); }
  static int64_t extreme(const KinetoTrace& trace, bool first) {
    const Span most = span_of(trace);
    const int64_t margin = std::clamp<int64_t>(most.end - most.begin, 1, kFurthestNs);
    int64_t found = first ? most.begin : most.end;
    for (const KinetoEvent& event : trace.events) {
      const int64_t begin = event.begin_ns + trace.base_ns, end = begin + std::min(event.length_ns, margin);
      if (begin < most.begin - margin || end > most.end + margin) continue;
      found = first ? std::min(found, begin) : std::max(found, end);
    }
    return found - trace.base_ns;
  }
  uint32_t name_id(std::string name) {
    const auto [known, is_new] = ids_.try_emplace(name, static_cast<uint32_t>(trace_.names.size()));
    if (is_new) trace_.names.push_back(std::move(name));
    return known->second;
  }

  KinetoTrace trace_;
  std::unordered_map<std::string, uint32_t> ids_;
  int64_t last_end_ = 0;
  uint32_t last_correlation_ = 0;
};

}  // namespace

std::vector<KinetoTrace> join_files(std::vector<KinetoFile> files) {
  std::vector<KinetoTrace> traces;
  for (ProcessFiles& process : by_process(std::move(files))) {
    const std::string host = process.front().host;
    Joined joined(std::move(process.front().file.trace));
    for (size_t i = 1; i < process.size(); ++i) joined.add(std::move(process[i].file.trace));
    traces.push_back(joined.take());
    traces.back().host = host;
  }
  return traces;
}

}  // namespace gpuwatch::model
