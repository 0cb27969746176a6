// SPDX-License-Identifier: Apache-2.0
// What the stages of a tf.data pipeline cost a batch, from what TensorFlow had counted of them at several
// moments (Process::stage_readings). A repeat() makes the stages before it anew for each epoch, and their
// counters begin again from 0. So counters are only compared within a reading: how long a stage works for an
// element, how many bytes an element has, and how many bytes its consumer took for each of its own. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/model/run.h"

namespace gpuwatch::model {

struct StageWork {
  std::string name;                    // as tf.data's model has it: "MapAndBatch"
  size_t feeds = 0;                    // index of the stage that it feeds; of the first itself
  double elements = 0;                 // for a batch
  double bytes_in = 0, bytes_out = 0;  // for a batch
  bool is_one_size = true;             // its elements had as many bytes each
  // For a batch, of its threads, without its inputs: wall clock, also while they wait for a CPU.
  double busy_ns = 0;
};

struct PipelineWork {
  double batch_ns = 0;            // wall time between two batches
  std::vector<StageWork> stages;  // from the one that hands out the batches to the source

  double busy_ns() const;                                                   // of all, for a batch
  double cores() const { return batch_ns > 0 ? busy_ns() / batch_ns : 0; }  // threads at work, on average
};

// Of the loader of this id. nullopt: it was not read twice within the span while one iterator handed out
// batches.
std::optional<PipelineWork> pipeline_work(const Process& process, uint32_t loader, TimeSpan span);

}  // namespace gpuwatch::model
