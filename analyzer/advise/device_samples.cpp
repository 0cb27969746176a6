// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/device_samples.h"

#include <algorithm>

namespace gpuwatch::advise {

DeviceSamples samples_in_steps(const RuleInput& input) {
  DeviceSamples samples;
  if (!input.device || input.rank.steps.empty()) return samples;
  const auto end_of = [](const attribute::StepAttribution& step) { return step.step.end; };
  for (const model::DeviceSample& sample : input.process.device_samples) {
    const auto step = std::ranges::lower_bound(input.rank.steps, sample.time, {}, end_of);
    const bool is_within = step != input.rank.steps.end() && sample.time >= step->step.begin;
    if (is_within && sample.device == input.device->ordinal && !sample.is_unused) samples.push_back(&sample);
  }
  return samples;
}

}  // namespace gpuwatch::advise
