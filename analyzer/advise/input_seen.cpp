// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/input_seen.h"

#include <algorithm>

namespace gpuwatch::advise {

bool is_input_seen(const model::Process& process, const attribute::RankAttribution& rank) {
  constexpr double kAtAll = 0.05;  // a job that opens a file now and then has not shown its input
  if (rank.device != model::kNone) return true;
  // A loader that only evaluation reads is not the training's input.
  const bool feeds_steps = std::any_of(rank.steps.begin(), rank.steps.end(),
                                       [](const auto& recorded) { return recorded.step.batches > 0; });
  const bool is_framework_loader =
      std::any_of(process.loaders.begin(), process.loaders.end(),
                  [](const model::Loader& loader) { return loader.framework != "torch"; });
  return feeds_steps || is_framework_loader || rank.share(attribute::Group::Input) >= kAtAll;
}

}  // namespace gpuwatch::advise
