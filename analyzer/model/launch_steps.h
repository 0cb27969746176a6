// SPDX-License-Identifier: Apache-2.0
// Steps of a program that has neither an optimizer nor a loader that we know: from what it launches, again
// and again.
#pragma once

#include <vector>

#include "analyzer/model/run.h"
#include "analyzer/model/steps.h"

namespace gpuwatch::model {

std::vector<Step> find_launch_steps(const Run& run, const Process& process, uint32_t thread);

}  // namespace gpuwatch::model
