// SPDX-License-Identifier: Apache-2.0
// What to change in a loader other than PyTorch's, whose own threads are not recorded: tf.data, Keras, Ray
// Data, DALI. The advice follows from how the pipeline is built (GW_FRAMEWORK_PIPELINE and GW_FRAMEWORK_GIL
// in libinject/trace/frameworks.def), and is a finding of the cause that it removes. Pure functions.
#pragma once

#include <optional>
#include <string>

#include "analyzer/advise/rule.h"
#include "analyzer/advise/unseen_pipeline.h"

namespace gpuwatch::advise {

enum class PipelineCause {
  kWorkers,     // stages that work on one thread: dataloader-workers
  kPrefetch,    // nothing is made ahead: dataloader-prefetch
  kCache,       // every epoch makes the same again: input-cacheable
  kTransforms,  // Python code that holds the GIL: input-decode
};

struct PipelineFix {
  PipelineCause cause;
  Fix fix;
};

// nullopt: nothing fits how it is built.
std::optional<PipelineFix> pipeline_fix(const RuleInput& input, const UnseenPipeline& unseen);

// The finding of the rule for this cause, with an upper bound; nullopt: training hardly waits, or another
// cause.
std::optional<Finding> pipeline_finding(const Rule& rule, const RuleInput& input, PipelineCause cause);

// What a rule that calls it says of its evidence.
inline constexpr Threshold kPipelineStall{"waiting for tf.data, Keras, Ray Data or DALI", 0.05, "of the step",
                                          "XProf's lower band: below it a job is not input-bound"};

}  // namespace gpuwatch::advise
