// SPDX-License-Identifier: Apache-2.0
// The framework that a process trains with, of those that it has loaded: PyTorch jobs load TensorFlow for its
// logs, JAX jobs load PyTorch or TensorFlow for their loaders. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "analyzer/model/run.h"

namespace gpuwatch::model {

struct TrainingFramework {
  const char* module;  // "jax", as in Process::facts and libinject/trace/frameworks.def
  const char* name;    // "JAX"
};

const TrainingFramework* training_framework(const Process& process);  // null: none that is known

// `module`: "torch", "tensorflow" or "jax".
bool trains_with(const Process& process, std::string_view module);

// The framework's name where the recording began because the process computed for a while, and no hook saw a
// loader or a step of it; empty otherwise.
std::string unseen_training(const Process& process);

}  // namespace gpuwatch::model
