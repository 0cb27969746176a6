// SPDX-License-Identifier: Apache-2.0
// What stands for a kernel where recurring launches are looked for. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/model/run.h"

namespace gpuwatch::model {

enum class KernelIdentity {
  kLaunch,  // name and launch configuration: tells the layers of a network apart
  kName,    // batches of varying size are computed by equal kernels with other grids
};

// By index into Run::kernels.
std::vector<uint32_t> kernel_tokens(const Run& run, KernelIdentity identity);

}  // namespace gpuwatch::model
