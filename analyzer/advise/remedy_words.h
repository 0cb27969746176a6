// SPDX-License-Identifier: Apache-2.0
// A remedy in the words of the framework that trains (libinject/trace/frameworks.def, GW_FRAMEWORK_REMEDY).
// Rules have PyTorch's words and those of CUDA; a person who writes TensorFlow or JAX can use neither. Pure
// functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

enum class Remedy {
  kFewerLaunches,  // fewer, larger kernels a step
  kOneGraph,       // a step whose operations are called one by one
  kMoreInGraph,    // a graph that is too short for what its call costs
  kTf32,           // matmuls on tensor cores, operands in FP32
  kHalfPrecision,  // {0}: "bfloat16", "float16"
  kKeepOnGpu,      // a value that is read in each step
  kReadLater,      // data that is read in each step
  kCompileOnce,    // code that is compiled again for each shape
  kOwnGpu,         // ranks that share a GPU
  kUseGpu,         // a GPU that the framework does not use
};

struct RemedyWords {
  std::string setting, value;
  std::string summary, snippet;
};

// nullopt: the rule's words fit.
std::optional<RemedyWords> remedy_words(const model::Process& process, Remedy remedy,
                                        std::string_view filled_in = "");

// PyTorch's names fit the process.
bool speaks_torch(const model::Process& process);

}  // namespace gpuwatch::advise
