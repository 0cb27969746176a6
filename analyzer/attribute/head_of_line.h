// SPDX-License-Identifier: Apache-2.0
// Order among the batches of an epoch: what a worker made before, and since when a batch that is late is the
// only one still being made while finished ones wait behind it. Times in ns; each query looks at most at the
// batches that were outstanding together.
#pragma once

#include "analyzer/model/run.h"

namespace gpuwatch::attribute {

struct Predecessor {
  bool exists = false;
  model::Ns fetched = 0;  // when the same worker finished the batch before this one
};
Predecessor predecessor(const model::LoaderEpoch& epoch, uint32_t batch);

// Since when all other workers have made everything they were asked for, at least one batch of which waits
// for this one; the end of this batch's fetch when that never was so. With some of the others still busy the
// workers lose little: a uniformly slow loader, whose workers finish in turns, is not held back by its order.
model::Ns alone_since(const model::LoaderEpoch& epoch, uint32_t batch);

}  // namespace gpuwatch::attribute
