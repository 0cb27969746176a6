// SPDX-License-Identifier: Apache-2.0
// Whether anything is known about how a job gets its data. A job on the CPU that prepares it between its
// steps, in code of its own, looks like one that computes. Pure.
#pragma once

#include "analyzer/attribute/attribution.h"
#include "analyzer/model/run.h"

namespace gpuwatch::advise {

// A loader gave the steps batches, or waits for data were; on a GPU, its idle time tells.
bool is_input_seen(const model::Process& process, const attribute::RankAttribution& rank);

}  // namespace gpuwatch::advise
