// SPDX-License-Identifier: Apache-2.0
// Kernels between two events each, and what the events and the host's clock say of them: a measure of time
// that is independent of CUPTI's. One JSON object a kernel on stdout:
//   {"launched_ns":1,"finished_ns":2,"since_first_us":0.0,"elapsed_us":2003.5}
// launched_ns and finished_ns (CLOCK_MONOTONIC) enclose the kernel; since_first_us is from the first kernel's
// begin event to this one's.
#include <vector>

#include "model.cuh"
#include "options.h"
#include "phase_log.h"

// `cycles` of the multiprocessor's clock on a real device; the simulated one goes by the name.
static __global__ void bracketed_2ms(long long cycles, int* out) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {
  }
  if (out && threadIdx.x == 0) *out = static_cast<int>(begin);
}

struct Pair {
  cudaEvent_t begin, end;
  int64_t launched_ns, finished_ns;
};

int main(int argc, char** argv) {
  const Options o(argc, argv, {{"pairs", 50}, {"pause-us", 500}, {"kilocycles", 3000}});
  const auto cycles = static_cast<long long>(o.number("kilocycles") * 1e3);
  int* out = nullptr;
  cudaStream_t stream;
  CHECK(cudaMalloc(&out, sizeof(int)));
  CHECK(cudaStreamCreate(&stream));
  std::vector<Pair> pairs(o.integer("pairs"));
  for (Pair& pair : pairs) {
    CHECK(cudaEventCreate(&pair.begin));
    CHECK(cudaEventCreate(&pair.end));
  }
  bracketed_2ms<<<1, 32, 0, stream>>>(0, out);  // loads the kernel
  CHECK(cudaStreamSynchronize(stream));
  for (Pair& pair : pairs) {
    const timespec pause{0, static_cast<long>(o.number("pause-us") * 1e3)};
    nanosleep(&pause, nullptr);
    pair.launched_ns = phase_log::now_ns();
    CHECK(cudaEventRecord(pair.begin, stream));
    bracketed_2ms<<<1, 32, 0, stream>>>(cycles, out);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(pair.end, stream));
    CHECK(cudaStreamSynchronize(stream));
    pair.finished_ns = phase_log::now_ns();
  }
  for (Pair& pair : pairs) {
    float since_first_ms = 0, elapsed_ms = 0;
    CHECK(cudaEventElapsedTime(&since_first_ms, pairs[0].begin, pair.begin));
    CHECK(cudaEventElapsedTime(&elapsed_ms, pair.begin, pair.end));
    std::printf("{\"launched_ns\":%lld,\"finished_ns\":%lld,\"since_first_us\":%.3f,\"elapsed_us\":%.3f}\n",
                static_cast<long long>(pair.launched_ns), static_cast<long long>(pair.finished_ns),
                static_cast<double>(since_first_ms) * 1e3, static_cast<double>(elapsed_ms) * 1e3);
  }
  for (Pair& pair : pairs) {
    CHECK(cudaEventDestroy(pair.begin));
    CHECK(cudaEventDestroy(pair.end));
  }
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(out));
}
