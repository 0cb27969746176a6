// SPDX-License-Identifier: Apache-2.0
// No stall: batches are ready in page-locked memory and their copies overlap the computation.
#include "options.h"
#include "trainer.cuh"

int main(int argc, char** argv) {
  const Options o(argc, argv, {{"steps", 50}, {"workers", 2}, {"read-ms", 4}});
  LoopOptions loop;
  loop.steps = o.integer("steps");
  loop.loader.workers = o.integer("workers");
  loop.loader.read_ms = o.number("read-ms");
  TrainingLoop(loop).run();
}
