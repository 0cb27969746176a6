// SPDX-License-Identifier: Apache-2.0
// Stall: page-locked batches copied on the compute stream, so that nothing computes meanwhile.
#include "options.h"
#include "trainer.cuh"

int main(int argc, char** argv) {
  const Options o(argc, argv, {{"steps", 50}, {"batch-mib", 64}});
  LoopOptions loop;
  loop.steps = o.integer("steps");
  loop.loader.batch_bytes = static_cast<size_t>(o.integer("batch-mib")) << 20;
  loop.copy_stream = false;
  TrainingLoop(loop).run();
}
