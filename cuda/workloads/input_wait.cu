// SPDX-License-Identifier: Apache-2.0
// Stall: one loader thread that needs 20 ms a batch feeds 6.5 ms of compute.
#include "options.h"
#include "trainer.cuh"

int main(int argc, char** argv) {
  const Options o(argc, argv,
                  {{"steps", 50}, {"workers", 1}, {"prefetch", 2}, {"read-ms", 20}, {"decode-ms", 0}});
  LoopOptions loop;
  loop.steps = o.integer("steps");
  loop.loader.workers = o.integer("workers");
  loop.loader.prefetch = o.integer("prefetch");
  loop.loader.read_ms = o.number("read-ms");
  loop.loader.decode_ms = o.number("decode-ms");
  TrainingLoop(loop).run();
}
