// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "analyzer/model/run.h"

namespace gpuwatch::test {

// One recorded epoch as many short ones.
inline void split_into_epochs(model::Process& process, size_t batches) {
  const model::LoaderEpoch whole = process.epochs.front();
  process.epochs.clear();
  for (size_t from = 0; from < whole.batches.size(); from += batches) {
    model::LoaderEpoch& epoch = process.epochs.emplace_back(whole);
    const auto begin = whole.batches.begin() + ptrdiff_t(from);
    epoch.batches.assign(begin, begin + ptrdiff_t(std::min(batches, whole.batches.size() - from)));
    epoch.start = {epoch.batches.front().next.begin, epoch.batches.front().next.begin};
  }
}

}  // namespace gpuwatch::test
