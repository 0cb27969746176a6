// SPDX-License-Identifier: Apache-2.0
// How often a step runs the model forward and backward before the optimizer's step: once for each batch of
// which gradients are accumulated, or for each sample where the script wants the gradients of each. Pure.
#pragma once

#include "analyzer/advise/launch_sources.h"
#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

// By the bursts of launches of the thread that runs the backward pass, which wait for each other. 1 where
// they differ (two networks, a penalty), follow one forward pass, or are fewer than three. Requires
// `input.streams`.
double passes_a_step(const RuleInput& input);

// The script's function that works on the gradients of each pass (their norms, per sample): more samples are
// more passes. The one with most launches; nullptr: too few.
const LaunchSource* source_of_passes(const std::vector<LaunchSource>& sources, double launches_a_step);

// The step's samples in one pass of as many launches as one has now, as fast as its kernels allow: at best.
double speedup_in_one_pass(const RuleInput& input, double passes);

}  // namespace gpuwatch::advise
