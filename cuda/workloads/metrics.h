// SPDX-License-Identifier: Apache-2.0
// What logging code does with a loss: a mean over a window, for as long as `ms`.
#pragma once

#include <cstdint>
#include <vector>

#include "phase_log.h"

inline float update_metrics(std::vector<float>& window, float loss, double ms) {
  const int64_t end_ns = phase_log::now_ns() + static_cast<int64_t>(ms * 1e6);
  float mean = 0;
  window.push_back(loss);
  do {
    mean = 0;
    for (float value : window) mean += value / static_cast<float>(window.size());
  } while (phase_log::now_ns() < end_ns);
  return mean;
}
