// SPDX-License-Identifier: Apache-2.0
// Whether anything is known about how a job gets its data. A job on the CPU that prepares it between its
// steps, in code of its own, looks like one that computes. Pure.
#pragma once

#include <optional>
#include <string>

#include "analyzer/attribute/attribution.h"
#include "analyzer/model/run.h"

namespace gpuwatch::advise {

// A loader gave the steps batches, or waits for data were; on a GPU, its idle time tells.
bool is_input_seen(const model::Process& process, const attribute::RankAttribution& rank);

// A pipeline that is not PyTorch's, whose threads work next to training that computes on the CPU: it takes
// cores from training while training waits for nothing.
struct PipelineOnCores {
  std::string name;  // "tf.data"
  std::optional<double>
      share;  // of the CPU time that the job uses, for its stages; nullopt: they were not read
};
std::optional<PipelineOnCores> pipeline_on_cores(const model::Run& run,
                                                 const attribute::RankAttribution& rank);

}  // namespace gpuwatch::advise
