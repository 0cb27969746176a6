// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/device_gaps.h"

#include <fmt/format.h>

#include <algorithm>

namespace gpuwatch::model {
namespace {

constexpr size_t kMostChanges = 10'000;  // one a second for hours; more is no recorder's

struct Gap {
  TimeSpan time;
  const SourceStatus* status;
};

std::vector<Gap> gaps_in(const std::vector<SourceChange>& changes, const LinearClock& clock, Ns last_seen) {
  std::vector<Gap> gaps;
  const SourceStatus* away = nullptr;
  Ns since = 0;
  for (const SourceChange& change : changes) {
    const Ns time = std::min(clock.map(change.ticks), last_seen);
    if (away && time > since) gaps.push_back({{since, time}, away});
    away = change.status.is_on() ? nullptr : &change.status;
    since = time;
  }
  if (away && last_seen > since) gaps.push_back({{since, last_seen}, away});
  return gaps;
}

}  // namespace

void find_device_gaps(const std::vector<SourceChange>& changes, const LinearClock& clock, Process& process) {
  const bool was_on = std::any_of(changes.begin(), changes.end(),
                                  [](const SourceChange& change) { return change.status.is_on(); });
  if (!was_on || changes.size() > kMostChanges) return;
  std::map<std::string, Ns> held;
  for (const Gap& gap : gaps_in(changes, clock, process.last_seen)) {
    process.unobserved.push_back(gap.time);
    const std::string& holder = gap.status->holder;
    if (!holder.empty()) held[holder] += gap.time.length();
  }
  if (held.empty()) return;
  std::string words;
  for (const auto& [holder, ns] : held)
    words += fmt::format("{}yielded {:.1f} s to {}", words.empty() ? "" : ", ", double(ns) / 1e9, holder);
  const SourceStatus& last = changes.back().status;
  const bool is_another = !last.is_on() && last.holder.empty();  // failed, for example, after all
  if (is_another) words += "; " + last.text;
  const trace::SourceState state = is_another ? last.state : trace::SourceState::Yielded;
  process.sources["cupti"] = {state, words, held.begin()->first};
}

}  // namespace gpuwatch::model
