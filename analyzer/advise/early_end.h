// SPDX-License-Identifier: Apache-2.0
// What can be said of a job of which no step, or too few, were recorded: that it ended with an error or was
// killed first, as far as the trace knows how it ended, or that nothing in it looks like training.
#pragma once

#include <string>

#include "analyzer/advise/finding.h"
#include "analyzer/model/run.h"

namespace gpuwatch::advise {

// Some program of it failed, or was killed.
bool ended_early(const model::Run& run);

Verdict verdict_without_steps(const model::Run& run);
Verdict verdict_with_few_steps(const model::Process& process, size_t steps);

}  // namespace gpuwatch::advise
