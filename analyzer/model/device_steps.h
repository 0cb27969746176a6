// SPDX-License-Identifier: Apache-2.0
// Steps of a process of which only the device was recorded: by the sequence of kernels that recurs there, as
// find_launch_steps() does by the calls of a host thread.
#pragma once

#include <vector>

#include "analyzer/model/run.h"
#include "analyzer/model/steps.h"

namespace gpuwatch::model {

// From the end of one period to the end of the next, on the device with most kernels. Empty where nothing
// recurs.
std::vector<Step> find_device_steps(const Run& run, const Process& process);

}  // namespace gpuwatch::model
