// SPDX-License-Identifier: Apache-2.0
// What a hooked function is called by whoever wrote the program; of PyTorch, what makes it call that
// function.
#pragma once

#include <string>

#include "analyzer/model/run.h"

namespace gpuwatch::advise {

// "zero_grad or torch.zeros (cudaMemsetAsync)"; the function's name alone where the program is not PyTorch's,
// or where many things call it.
std::string call_words(const model::Process& process, const std::string& function);

}  // namespace gpuwatch::advise
