// SPDX-License-Identifier: Apache-2.0
// Stall: two batches of different size take turns, and the device has memory for the blocks of one only. As
// caching allocators do, the program keeps blocks that it needs no more; an allocation that fails makes it
// free them and try again, in each step. With `--block-gib 20` both have room.
#include <map>

#include "model.cuh"
#include "options.h"
#include "phase_log.h"

namespace {

class Cache {
 public:
  ~Cache() { release(); }
  void* block_of(size_t bytes) {
    void*& block = blocks_[bytes];
    if (block || cudaMalloc(&block, bytes) == cudaSuccess) return block;
    cudaGetLastError();
    release();
    CHECK(cudaMalloc(&blocks_[bytes], bytes));
    return blocks_[bytes];
  }

 private:
  void release() {
    for (const auto& [bytes, block] : blocks_)
      if (block) cudaFree(block);
    blocks_.clear();
  }
  std::map<size_t, void*> blocks_;
};

}  // namespace

int main(int argc, char** argv) {
  const Options o(argc, argv, {{"steps", 50}, {"block-gib", 50}});
  Model model;
  float* input = nullptr;
  cudaStream_t stream;
  CHECK(cudaMalloc(&input, Model::kParameters * sizeof(float)));
  CHECK(cudaStreamCreate(&stream));
  {
    Cache cache;
    for (long step = 0; step < o.integer("steps"); ++step) {
      phase_log::Scope phase("step", step);
      {
        phase_log::Scope allocate("allocate", step);
        cache.block_of((static_cast<size_t>(o.integer("block-gib")) << 30) +
                       (step % 2 ? size_t{1} << 30 : 0));
      }
      phase_log::Scope launch("launch", step);
      model.train(input, stream);
    }
    phase_log::Scope phase("drain", o.integer("steps"));
    CHECK(cudaDeviceSynchronize());
  }
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(input));
}
