// SPDX-License-Identifier: Apache-2.0
// Stall: batches are ready, but in pageable memory: each copy waits for the stream and holds the host while
// it is staged.
#include "options.h"
#include "trainer.cuh"

int main(int argc, char** argv) {
  const Options o(argc, argv, {{"steps", 50}, {"batch-mib", 32}});
  LoopOptions loop;
  loop.steps = o.integer("steps");
  loop.loader.batch_bytes = static_cast<size_t>(o.integer("batch-mib")) << 20;
  loop.loader.pinned = false;
  loop.copy_stream = false;
  TrainingLoop(loop).run();
}
