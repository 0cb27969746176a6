// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/left_epochs.h"

#include <algorithm>

#include "analyzer/advise/ceiling.h"

namespace gpuwatch::advise {

bool leaves_epochs(const model::Process& process, const model::Loader& loader) {
  constexpr size_t kFewest = 5;
  constexpr double kHardlyMore = 1.5;  // batches an epoch
  size_t epochs = 0, batches = 0, left = 0;
  for (const model::LoaderEpoch& epoch : process.epochs) {
    if (&process.loaders[epoch.loader] != &loader) continue;
    const auto taken = std::ranges::count_if(
        epoch.batches, [](const model::Batch& batch) { return batch.next.length() > 0; });
    epochs += taken > 0;
    left += taken > 0 && size_t(taken) < epoch.batches.size();
    batches += size_t(taken);
  }
  // The length of a dataset of the script is not known, as asking would run its code; then batches that were
  // handed out to workers and not taken show that there were more.
  const bool has_more = loader.batches > 1 || (loader.batches < 0 && left * 2 > epochs);
  return epochs >= kFewest && double(batches) < kHardlyMore * double(epochs) && has_more;
}

double ceiling_with_one_iterator(const RuleInput& input) {
  const double fetch_ms =
      predict::mean_batch(*input.loader).service_ns * input.loader->batches_per_step / 1e6;
  return ceiling_without(input, 1 - fetch_ms / input.now_ms);
}

}  // namespace gpuwatch::advise
