// SPDX-License-Identifier: Apache-2.0
// NVML's samples of a rank's GPU, taken about once a second. Pure functions; pointers into the run.
#pragma once

#include <vector>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

using DeviceSamples = std::vector<const model::DeviceSample*>;

// Those of the rank's GPU within its recorded steps, in order of time: none of an evaluation between them.
DeviceSamples samples_in_steps(const RuleInput& input);

// Fewer samples may be chance: four seconds of a run.
inline constexpr size_t kLeastDeviceSamples = 4;
inline constexpr Threshold kEnoughDeviceSamples{"GPU samples", double(kLeastDeviceSamples),
                                                "in the recorded steps", "fewer may be chance"};

}  // namespace gpuwatch::advise
