// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/earlier_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>
#include <set>
#include <type_traits>

#include "analyzer/io/table_frame.h"

namespace gpuwatch::model {
namespace {

// What was recorded with one run id.
struct Recording {
  uint64_t begin_ns = UINT64_MAX, end_ns = 0;
  bool may_train = false;
  std::set<std::string> ranks, scripts;
  std::vector<size_t> files;

  void add(const Recording& other) {
    begin_ns = std::min(begin_ns, other.begin_ns);
    end_ns = std::max(end_ns, other.end_ns);
    may_train |= other.may_train;
    ranks.insert(other.ranks.begin(), other.ranks.end());
    scripts.insert(other.scripts.begin(), other.scripts.end());
    files.insert(files.end(), other.files.begin(), other.files.end());
  }
};

// Without the number that a launcher counts restarts with: "elastic-job.1" goes on with "elastic-job.0".
std::string job_of(const std::string& run_id) {
  constexpr size_t kMostDigits = 3;
  const size_t dot = run_id.rfind('.');
  if (dot == std::string::npos || dot + 1 == run_id.size() || run_id.size() - dot - 1 > kMostDigits)
    return run_id;
  const bool is_number = std::all_of(run_id.begin() + long(dot) + 1, run_id.end(),
                                     [](unsigned char c) { return std::isdigit(c) != 0; });
  return is_number ? run_id.substr(0, dot) : run_id;
}

bool share_a_rank(const Recording& a, const Recording& b) {
  return std::ranges::any_of(a.ranks, [&](const std::string& rank) { return b.ranks.contains(rank); });
}

// By begin; what overlaps in time is one.
std::vector<Recording> one_after_the_other(std::map<std::string, Recording> by_job) {
  std::vector<Recording> recordings;
  for (auto& [job, recording] : by_job) recordings.push_back(std::move(recording));
  std::ranges::sort(recordings, {}, &Recording::begin_ns);
  std::vector<Recording> result;
  for (const Recording& recording : recordings) {
    if (!result.empty() && recording.begin_ns < result.back().end_ns)
      result.back().add(recording);
    else
      result.push_back(recording);
  }
  return result;
}

const Recording& meant_of(const std::vector<Recording>& recordings) {
  std::map<std::set<std::string>, const Recording*> last_of_script;
  for (const Recording& recording : recordings) last_of_script[recording.scripts] = &recording;
  const auto rank = [](const auto& entry) {
    const Recording& recording = *entry.second;
    return std::pair(recording.may_train, recording.end_ns - recording.begin_ns);
  };
  return *std::ranges::max_element(last_of_script, {}, rank)->second;
}

}  // namespace

RecordedFile describe(io::TraceFile& file) {
  std::map<uint32_t, std::string> texts;
  RecordedFile result;
  uint32_t run_id = 0, host = 0, script = 0;
  int rank = -1;
  const auto visit = [&](const auto& table) {
    using Table = std::decay_t<decltype(table)>;
    if constexpr (std::is_same_v<Table, trace::Text>) {
      if (table.text() && table.text()->size() < 512) texts.try_emplace(table.id(), table.text()->str());
    } else if constexpr (std::is_same_v<Table, trace::Process>) {
      if (result.begin_ns == 0) {
        run_id = table.run_id();
        host = table.host();
        script = table.script();
        rank = table.rank();
      }
      if (result.begin_ns == 0 || table.start_realtime_ns() < result.begin_ns)
        result.begin_ns = table.start_realtime_ns();
    } else if constexpr (std::is_same_v<Table, trace::ClockSample>) {
      result.end_ns = std::max(result.end_ns, table.realtime_ns());
    } else if constexpr (std::is_same_v<Table, trace::LoaderInfo> ||
                         std::is_same_v<Table, trace::KernelInfo>) {
      result.may_train = true;
    }
  };
  for (const io::TableFrameRef& frame : file.table_frames()) io::for_each_table(file.read(frame), visit);
  result.run_id = texts[run_id];
  result.script = texts[script];
  result.rank = fmt::format("{} {}", texts[host], rank);
  return result;
}

std::vector<size_t> files_of_meant_run(const std::vector<RecordedFile>& files) {
  std::vector<size_t> all(files.size());
  std::iota(all.begin(), all.end(), size_t{0});
  std::map<std::string, Recording> by_job;
  for (size_t i = 0; i < files.size(); ++i) {
    const RecordedFile& file = files[i];
    if (file.run_id.empty() || file.begin_ns == 0) return all;
    by_job[job_of(file.run_id)].add({file.begin_ns,
                                     std::max(file.begin_ns, file.end_ns),
                                     file.may_train,
                                     {file.rank},
                                     {file.script},
                                     {i}});
  }
  const std::vector<Recording> recordings = one_after_the_other(std::move(by_job));
  if (recordings.size() < 2) return all;
  const Recording& meant = meant_of(recordings);
  std::vector<size_t> result;
  for (const Recording& recording : recordings)
    if (&recording == &meant || !share_a_rank(recording, meant))
      result.insert(result.end(), recording.files.begin(), recording.files.end());
  std::ranges::sort(result);
  return result;
}

}  // namespace gpuwatch::model
