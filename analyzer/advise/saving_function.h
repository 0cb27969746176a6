// SPDX-License-Identifier: Apache-2.0
// What a script's function that saves does besides torch.save: os.replace() gives a file its name, which
// waits for the disk where the file was just written, and older ones are removed. Those calls are not
// recorded, but stack samples see them. Pure functions.
#pragma once

#include <optional>

#include "analyzer/advise/host_calls.h"
#include "analyzer/model/sampled_share.h"

namespace gpuwatch::advise {

// Of the steps, beyond the calls of `saves`, of which there is one at least. nullopt where nothing was seen,
// or where the function that saves also computes the model, as a training loop does: then its samples do not
// tell what belongs to saving.
std::optional<model::SampledShare> beside_saving(const RuleInput& input, const HostCalls& saves);

// The same calls, with that share of the steps as what follows them, in proportion to their lengths; in place
// of what followed them before.
HostCalls with_following(const RuleInput& input, HostCalls saves, double share);

}  // namespace gpuwatch::advise
