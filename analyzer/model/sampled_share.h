// SPDX-License-Identifier: Apache-2.0
// The share of stack samples that were at some place. Pure.
#pragma once

#include <algorithm>
#include <cmath>

namespace gpuwatch::model {

// With the 95% interval of a share (Wilson, J. Am. Stat. Assoc. 22, 1927).
struct SampledShare {
  double share = 0, low = 0, high = 0;
};

inline SampledShare sampled_share(double share, double samples) {
  constexpr double kZ = 1.96;
  const double spread = kZ * kZ / samples;
  const double middle = (share + spread / 2) / (1 + spread);
  const double half = kZ / (1 + spread) * std::sqrt(share * (1 - share) / samples + spread / (4 * samples));
  return {share, std::max(0.0, middle - half), std::min(1.0, middle + half)};
}

}  // namespace gpuwatch::model
