// SPDX-License-Identifier: Apache-2.0
// What the stages of a tf.data pipeline do. TensorFlow keeps a model of each pipeline, from which its
// autotuning decides: for every stage the elements that it made and the time that its threads were at work on
// them, also in functions that run on other threads (tensorflow/core/framework/model.h; kept wherever the
// option `autotune` is not switched off). It is read through the model's own DebugString(), while the
// pipeline hands out a batch, and recorded as tables PipelineStage: a quarter of a second after the pipeline
// was made, and from then on whenever an eighth of the time so far has passed again, so that a long run has
// few of them. 40 us a time for ten stages.
// Of short epochs, whose iterators have a model each, not all are read.
//
// Its times are of the wall clock: of a stage whose threads wait for a CPU they are more than the CPU time.
//
// Thread safety: any. Signal safety: none.
#pragma once

#include "libinject/base/compiler.h"

namespace gpuwatch::hooks::tensorflow {

// The IteratorResource* whose next batch this thread asks for, or null.
extern GW_TLS const void* t_asked_resource;

}  // namespace gpuwatch::hooks::tensorflow
