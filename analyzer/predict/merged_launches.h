// SPDX-License-Identifier: Apache-2.0
// What-if: launches that operations on whole lists of tensors replace: an optimizer with fused=True,
// torch._foreach_ functions, a loop over samples written as one operation on the batch. Pure.
#pragma once

#include "analyzer/predict/stream_replay.h"

namespace gpuwatch::predict {

struct Merge {
  double longest_gap_ns = 0;  // longer host time before a launch is the script's own, and stays
  double kept_share = 0;      // of the host's time for the launches that follow the first one of a run
  // What the merged launches computed takes as long as before; else no time, and what the host calls between
  // them goes, too: it waits for a count of each sample, fills a tensor with zeros for each.
  bool keeps_kernels = true;
};

// Merges each run of such launches: those with no other launch in between.
void merge_launches(StreamReplayInput& recording, const EventFilter& which, const Merge& merge);

}  // namespace gpuwatch::predict
