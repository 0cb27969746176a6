// SPDX-License-Identifier: Apache-2.0
// Quantiles of recorded values: medians that one disturbed step does not move, low quantiles that show a cost
// without what was waited for. Pure functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace gpuwatch::model {

// The value that one in `parts` of the others lies below: 2 is the median, 4 the lower quartile, 10 the
// lowest decile. A recorded value, not a mean of two. `values` must not be empty; taken by value, because it
// is reordered.
template <class Value>
Value quantile(std::vector<Value> values, size_t parts) {
  const auto at = values.begin() + static_cast<ptrdiff_t>(values.size() / parts);
  std::ranges::nth_element(values, at);
  return *at;
}

template <class Value>
Value median(std::vector<Value> values) {
  return quantile(std::move(values), 2);
}

// The share `p` of sorted values, interpolated between neighbors, as step times are reported (p50, p95).
inline double percentile(const std::vector<double>& sorted, double p) {
  if (sorted.empty()) return 0;
  const double at = p * double(sorted.size() - 1);
  const size_t below = size_t(at);
  const double above = sorted[std::min(below + 1, sorted.size() - 1)];
  return sorted[below] + (at - double(below)) * (above - sorted[below]);
}

}  // namespace gpuwatch::model
