// SPDX-License-Identifier: Apache-2.0
// PyTorch runs the backward pass of each GPU on a thread of its own, and names it pt_autograd_0, _1, ...
// (torch/csrc/autograd/engine.cpp; seen with PyTorch 2.13). Other threads launch kernels and copy, too: those
// that load data ahead. Where threads have no such name, the backward pass is not told from them. Pure.
#pragma once

#include "analyzer/model/run.h"

namespace gpuwatch::model {

// torch.profiler writes "thread 7 (pt_autograd_0)".
inline bool runs_backward(const Process& process, uint32_t thread) {
  return thread < process.threads.size() &&
         process.threads[thread].name.find("pt_autograd_") != std::string::npos;
}

}  // namespace gpuwatch::model
