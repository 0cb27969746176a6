// SPDX-License-Identifier: Apache-2.0
// Stall: in each step a table is copied to the device on the compute stream, always from the same address.
// (The batch comes from the loader's rotating buffers and its copy overlaps the computation.) With two
// tables the copies alternate between them, as with buffers that the host refills for each step; with none
// there is no stall.
#include "options.h"
#include "trainer.cuh"

int main(int argc, char** argv) {
  const Options o(argc, argv, {{"steps", 50}, {"tables", 1}, {"table-mib", 64}});
  LoopOptions loop;
  loop.steps = o.integer("steps");
  loop.tables = o.integer("tables");
  loop.table_bytes = static_cast<size_t>(o.integer("table-mib")) << 20;
  TrainingLoop(loop).run();
}
