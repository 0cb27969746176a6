// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/device_gaps.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace gpuwatch::model {
namespace {

constexpr size_t kMostChanges = 10'000;  // one a second for hours; more is no recorder's

// "torch.profiler" of "yielded to torch.profiler" and of "held by torch.profiler", else nothing.
std::string_view holder_in(std::string_view state) {
  for (const std::string_view how : {"yielded to ", "held by "})
    if (state.starts_with(how)) return state.substr(how.size());
  return {};
}

struct Gap {
  TimeSpan time;
  const std::string* state;
};

std::vector<Gap> gaps_in(const std::vector<SourceChange>& changes, const LinearClock& clock, Ns last_seen) {
  std::vector<Gap> gaps;
  const std::string* away = nullptr;
  Ns since = 0;
  for (const SourceChange& change : changes) {
    const Ns time = std::min(clock.map(change.ticks), last_seen);
    if (away && time > since) gaps.push_back({{since, time}, away});
    away = change.state == "on" ? nullptr : &change.state;
    since = time;
  }
  if (away && last_seen > since) gaps.push_back({{since, last_seen}, away});
  return gaps;
}

}  // namespace

void find_device_gaps(const std::vector<SourceChange>& changes, const LinearClock& clock, Process& process) {
  const bool was_on =
      std::any_of(changes.begin(), changes.end(), [](const SourceChange& c) { return c.state == "on"; });
  if (!was_on || changes.size() > kMostChanges) return;
  std::map<std::string, Ns> held;
  for (const Gap& gap : gaps_in(changes, clock, process.last_seen)) {
    process.unobserved.push_back(gap.time);
    const std::string_view holder = holder_in(*gap.state);
    if (!holder.empty()) held[std::string(holder)] += gap.time.length();
  }
  if (held.empty()) return;
  std::string words;
  for (const auto& [holder, ns] : held)
    words += fmt::format("{}yielded {:.1f} s to {}", words.empty() ? "" : ", ", double(ns) / 1e9, holder);
  const std::string& last = changes.back().state;
  if (last != "on" && holder_in(last).empty()) words += "; " + last;
  process.sources["cupti"] = words;
}

}  // namespace gpuwatch::model
