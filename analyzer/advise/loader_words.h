// SPDX-License-Identifier: Apache-2.0
// A loader's setting in the words of the framework that built the loader. Rules speak of LoaderOption; where
// Lightning, the Hugging Face Trainer or another framework stands between the user and PyTorch's DataLoader,
// the fix says what to write there (libinject/trace/frameworks.def). Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

// "Ray Data" for "ray"; an id that is not in libinject/trace/frameworks.def is its own name.
std::string framework_name(const std::string& id);

struct SettingWords {
  std::string setting;  // "dataloader_num_workers=4"
  std::string snippet;  // "TrainingArguments(..., dataloader_num_workers=4)"
};

// `loader`: the one to change; null: PyTorch's words.
SettingWords setting_words(const LoaderChange& change, const model::Loader* loader);

// A stage of a tf.data pipeline.
struct PipelineStage {
  std::string name;      // "Map"
  std::string python;    // "tf.py_function": what calls Python in it; empty: nothing
  std::string location;  // "train.py:12"; empty: not known
  bool is(std::string_view words) const { return name == words || python == words; }
};

// From the pipeline's end to its source; empty for other loaders.
std::vector<PipelineStage> pipeline_stages(const model::Loader& loader);

// Where the batch size is set: the line of `.batch()`, else the loader's.
std::string batch_size_location(const model::Loader& loader);

// Makes `change` the fix of the finding: "Set num_workers=4", the code to write and the loader's line.
void propose(Finding& finding, const RuleInput& input, const LoaderChange& change);

}  // namespace gpuwatch::advise
