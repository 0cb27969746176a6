// SPDX-License-Identifier: Apache-2.0
// Samples that are tensors already, indexed and stacked one by one: what takes long is that there are so
// many, each with a call of __getitem__ and a tensor to stack. Without 2048 of them, a step of 46 ms took 18.
#pragma once

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

// PyTorch's BatchSampler in the place of the sampler, with the loader's batch size.
void propose_whole_batches(Finding& finding, const model::Loader& loader);

}  // namespace gpuwatch::advise
