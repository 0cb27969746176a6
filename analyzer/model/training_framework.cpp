// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/training_framework.h"

#include <algorithm>
#include <iterator>

namespace gpuwatch::model {
namespace {

using trace::OpClass;

struct Version {
  TrainingFramework framework;
  bool runs_training;
};
constexpr Version kVersions[] = {
#define GW_FRAMEWORK_VERSION(module, name, runs_training) {{module, name}, runs_training},
#include "libinject/trace/frameworks.def"
};

const TrainingFramework* named(std::string_view module) {
  const auto found = std::ranges::find_if(kVersions, [&](const Version& version) {
    return version.runs_training && module == version.framework.module;
  });
  return found == std::end(kVersions) ? nullptr : &found->framework;
}

bool has_optimizer_steps(const Process& process) {
  return std::ranges::any_of(process.threads, [](const Thread& thread) {
    return std::ranges::any_of(thread.calls,
                               [](const HostCall& call) { return call.op_class == OpClass::OptimizerStep; });
  });
}

bool reads_tf_data(const Process& process) {
  return std::ranges::any_of(process.loaders, [](const Loader& loader) {
    return loader.framework == "tf.data" || loader.framework == "keras";
  });
}

}  // namespace

const TrainingFramework* training_framework(const Process& process) {
  const auto has = [&](const char* module) { return process.facts.contains(module); };
  const bool has_others = has("jax") || has("tensorflow");
  if (has("torch") && (!has_others || has_optimizer_steps(process))) return named("torch");
  // What was seen computing; a loader of TensorFlow's feeds JAX jobs too.
  const std::string computing = unseen_training(process);
  for (const Version& version : kVersions)
    if (version.runs_training && computing == version.framework.name) return &version.framework;
  // TensorFlow and Keras import JAX where it is installed: loaded with one of the others, it must have
  // compiled.
  if (has("jax") && (has("jax_compiles") || (!has("torch") && !has("tensorflow")))) return named("jax");
  if (has("torch") && !reads_tf_data(process)) return named("torch");
  return has("tensorflow") ? named("tensorflow") : nullptr;
}

bool trains_with(const Process& process, std::string_view module) {
  const TrainingFramework* framework = training_framework(process);
  return framework && module == framework->module;
}

std::string unseen_training(const Process& process) {
  const auto fact = process.facts.find("computes_with");
  return fact == process.facts.end() ? "" : fact->second;
}

}  // namespace gpuwatch::model
