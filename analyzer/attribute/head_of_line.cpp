// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/head_of_line.h"

#include <algorithm>

namespace gpuwatch::attribute {

using model::Batch;
using model::LoaderEpoch;
using model::Ns;

namespace {

// Round robin puts a worker's previous batch one turn back, and has prefetch_factor turns outstanding;
// unequal workers and out-of-order delivery a few more.
constexpr size_t kTurns = 64;
constexpr size_t kMostLookedAt = 4096;  // a damaged trace has a worker for each batch

size_t reach(const LoaderEpoch& epoch) {
  return std::min(epoch.workers.size() * kTurns, kMostLookedAt);
}

}  // namespace

Predecessor predecessor(const LoaderEpoch& epoch, uint32_t batch) {
  const size_t most = std::min<size_t>(reach(epoch), batch);
  for (size_t back = 1; back <= most; ++back) {
    const Batch& earlier = epoch.batches[batch - back];
    if (earlier.worker == epoch.batches[batch].worker) return {true, earlier.fetch.end};
  }
  return {};
}

Ns alone_since(const LoaderEpoch& epoch, uint32_t batch) {
  const Batch& late = epoch.batches[batch];
  Ns since = 0;
  const size_t end = std::min(epoch.batches.size(), batch + 1 + reach(epoch));
  for (size_t i = batch + 1; i < end; ++i) {
    const Batch& other = epoch.batches[i];
    if (other.sent == 0 || other.sent >= late.fetch.end) break;
    if (other.worker == late.worker) continue;
    if (other.fetch.length() <= 0) return late.fetch.end;
    since = std::max(since, other.fetch.end);
  }
  return since == 0 ? late.fetch.end : std::min(since, late.fetch.end);
}

}  // namespace gpuwatch::attribute
