// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/left_epochs.h"

#include <algorithm>

#include "analyzer/advise/ceiling.h"

namespace gpuwatch::advise {

bool leaves_epochs(const model::Process& process, const model::Loader& loader) {
  constexpr size_t kFewest = 5;
  constexpr double kHardlyMore = 1.5;  // batches an epoch
  size_t epochs = 0, batches = 0;
  for (const model::LoaderEpoch& epoch : process.epochs) {
    if (&process.loaders[epoch.loader] != &loader) continue;
    const auto taken = std::ranges::count_if(
        epoch.batches, [](const model::Batch& batch) { return batch.next.length() > 0; });
    epochs += taken > 0;
    batches += size_t(taken);
  }
  return epochs >= kFewest && double(batches) < kHardlyMore * double(epochs) && loader.batches > 1;
}

double ceiling_with_one_iterator(const RuleInput& input) {
  const double fetch_ms =
      predict::mean_batch(*input.loader).service_ns * input.loader->batches_per_step / 1e6;
  return ceiling_without(input, 1 - fetch_ms / input.now_ms);
}

}  // namespace gpuwatch::advise
