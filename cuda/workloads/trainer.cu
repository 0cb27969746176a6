// SPDX-License-Identifier: Apache-2.0
// The demo's trainer: loader threads, page-locked or pageable batches, one device. As delivered it has one
// worker and pageable batches, and waits for both.
#include "options.h"
#include "trainer.cuh"

int main(int argc, char** argv) {
  const Options o(argc, argv,
                  {{"steps", 200},
                   {"workers", 1},
                   {"prefetch", 2},
                   {"pin", 0},
                   {"batch", 64},
                   {"read-ms", 16},
                   {"decode-ms", 2},
                   {"batch-mib", 24}});
  LoopOptions loop;
  loop.steps = o.integer("steps");
  loop.batch = o.integer("batch");
  loop.loader.workers = o.integer("workers");
  loop.loader.prefetch = o.integer("prefetch");
  loop.loader.pinned = o.on("pin");
  loop.loader.read_ms = o.number("read-ms");
  loop.loader.decode_ms = o.number("decode-ms");
  loop.loader.batch_bytes = static_cast<size_t>(o.integer("batch-mib")) << 20;
  std::printf("trainer: %d workers, %s memory, batch %d\n", loop.loader.workers,
              loop.loader.pinned ? "page-locked" : "pageable", loop.batch);
  TrainingLoop(loop).run();
}
