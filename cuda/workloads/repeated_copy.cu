// SPDX-License-Identifier: Apache-2.0
// Stall: beside the batch, which comes from the loader's rotating buffers and is copied beside the
// computation, a table is copied to the device in each step, on the stream that computes and from the same
// place. With two tables they take turns, as buffers do that the host fills anew for each step; with none
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
