// SPDX-License-Identifier: Apache-2.0
// The steps of a job whose optimizer is not seen: each begins as it asks its loader for a batch. Pure.
#pragma once

#include <vector>

#include "analyzer/model/run.h"
#include "analyzer/model/steps.h"

namespace gpuwatch::model {

bool returned_batch(const HostCall& call);  // a next() that did not end its epoch

// Step i begins with the i-th next() of the loader that gave most batches; empty without a loader.
std::vector<Step> find_loader_steps(const Process& process, const Thread& thread);

}  // namespace gpuwatch::model
