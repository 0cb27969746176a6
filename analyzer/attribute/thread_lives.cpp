// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/thread_lives.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <tuple>

namespace gpuwatch::attribute {

using model::Ns;

ThreadLives::ThreadLives(std::vector<ThreadLife> lives) : by_begin_(std::move(lives)), by_end_(by_begin_) {
  std::ranges::sort(by_begin_, {}, &ThreadLife::begin);
  std::ranges::sort(by_end_, [](const ThreadLife& a, const ThreadLife& b) {
    return std::tie(a.end, b.thread) < std::tie(b.end, a.thread);
  });
  const size_t leaves = std::bit_ceil(std::max<size_t>(by_begin_.size(), 1));
  latest_.assign(2 * leaves - 1, std::numeric_limits<Ns>::min());
  for (size_t i = 0; i < by_begin_.size(); ++i) latest_[leaves - 1 + i] = by_begin_[i].end;
  for (size_t node = leaves - 1; node-- > 0;)
    latest_[node] = std::max(latest_[2 * node + 1], latest_[2 * node + 2]);
}

std::vector<uint32_t> ThreadLives::at(Ns time) const {
  std::vector<uint32_t> found;
  find(0, 0, (latest_.size() + 1) / 2, time, found);
  std::ranges::sort(found);
  return found;
}

// Of by_begin_[first, last), which the node stands for.
void ThreadLives::find(size_t node, size_t first, size_t last, Ns time, std::vector<uint32_t>& found) const {
  if (latest_[node] <= time || first >= by_begin_.size() || by_begin_[first].begin > time) return;
  if (last - first == 1) return found.push_back(by_begin_[first].thread);
  const size_t middle = first + (last - first) / 2;
  find(2 * node + 1, first, middle, time, found);
  find(2 * node + 2, middle, last, time, found);
}

uint32_t ThreadLives::ended_last(Ns time) const {
  const auto after = std::ranges::upper_bound(by_end_, time, {}, &ThreadLife::end);
  return after == by_end_.begin() ? model::kNone : std::prev(after)->thread;
}

}  // namespace gpuwatch::attribute
