// SPDX-License-Identifier: Apache-2.0
// Matrix factorisation by stochastic gradient descent: ratings do not fit on the device and come block by
// block from page-locked memory.
//   rating_blocks [--buffers 1] [--block-mib N] [--blocks N] [--report-every N]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CUDA(call)                                                                 \
  if (cudaError_t e = (call)) {                                                    \
    std::fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e)); \
    std::exit(1);                                                                  \
  }

struct Rating {
  int user, item;
  float value;
  float weight;
};

__global__ void shuffle_ratings_600us(const Rating* in, Rating* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[(i * 7919LL) % n] = in[i];
}
__global__ void sgd_users_1900us(const Rating* ratings, float* users, const float* items, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) users[ratings[i].user] += 0.01f * ratings[i].value * items[ratings[i].item];
}
__global__ void sgd_items_1900us(const Rating* ratings, const float* users, float* items, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) items[ratings[i].item] += 0.01f * ratings[i].value * users[ratings[i].user];
}
__global__ void squared_error_200us(const Rating* ratings, const float* users, const float* items,
                                    double* sum, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) sum[i % 256] += ratings[i].value - users[ratings[i].user] * items[ratings[i].item];
}

static int option(int argc, char** argv, const char* name, int value) {
  for (int i = 1; i + 1 < argc; ++i)
    if (!std::strcmp(argv[i], name)) value = std::atoi(argv[i + 1]);
  return value;
}

struct Buffer {
  Rating *raw, *shuffled;
  cudaStream_t stream;
  cudaEvent_t free;
};

int main(int argc, char** argv) {
  const int block_count = option(argc, argv, "--blocks", 900);
  const int report_every = option(argc, argv, "--report-every", 100);
  const size_t bytes = static_cast<size_t>(option(argc, argv, "--block-mib", 96)) << 20;
  const int n = static_cast<int>(bytes / sizeof(Rating));
  const unsigned grid = (n + 255) / 256;
  constexpr int warmup = 20, factors = 1 << 24;

  float *users, *items;
  double* sum;
  Rating* archive;  // one block stands for all of them
  CUDA(cudaMalloc(&users, factors * sizeof(float)));
  CUDA(cudaMalloc(&items, factors * sizeof(float)));
  CUDA(cudaMalloc(&sum, 256 * sizeof(double)));
  CUDA(cudaMallocHost(&archive, bytes));

  std::vector<Buffer> buffers(option(argc, argv, "--buffers", 1));
  for (Buffer& b : buffers) {
    CUDA(cudaMalloc(&b.raw, bytes));
    CUDA(cudaMalloc(&b.shuffled, bytes));
    CUDA(cudaStreamCreateWithFlags(&b.stream, cudaStreamNonBlocking));
    CUDA(cudaEventCreateWithFlags(&b.free, cudaEventDisableTiming));
  }
  cudaEvent_t updated;
  CUDA(cudaEventCreateWithFlags(&updated, cudaEventDisableTiming));

  auto began = std::chrono::steady_clock::now();
  for (int block = 0; block < block_count; ++block) {
    if (block == warmup) {
      CUDA(cudaDeviceSynchronize());
      began = std::chrono::steady_clock::now();
    }
    Buffer& b = buffers[block % buffers.size()];
    CUDA(cudaEventSynchronize(b.free));
    CUDA(cudaMemcpyAsync(b.raw, archive, bytes, cudaMemcpyHostToDevice, b.stream));
    CUDA(cudaStreamWaitEvent(b.stream, updated, 0));  // factors are updated in the order of blocks
    shuffle_ratings_600us<<<grid, 256, 0, b.stream>>>(b.raw, b.shuffled, n);
    sgd_users_1900us<<<grid, 256, 0, b.stream>>>(b.shuffled, users, items, n);
    sgd_items_1900us<<<grid, 256, 0, b.stream>>>(b.shuffled, users, items, n);
    CUDA(cudaEventRecord(updated, b.stream));
    if (block % report_every == 0) {
      squared_error_200us<<<grid, 256, 0, b.stream>>>(b.shuffled, users, items, sum, n);
      double host[256];
      CUDA(cudaMemcpyAsync(host, sum, sizeof(host), cudaMemcpyDeviceToHost, b.stream));
      CUDA(cudaStreamSynchronize(b.stream));
      std::printf("block %d squared error %.3f\n", block, host[0]);
    }
    CUDA(cudaEventRecord(b.free, b.stream));
    CUDA(cudaGetLastError());
  }
  CUDA(cudaDeviceSynchronize());
  const double ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count() /
      (block_count - warmup);
  std::printf("{\"step_ms\": %.4f, \"steps\": %d, \"samples_per_s\": %.3f}\n", ms, block_count - warmup,
              n / ms * 1e3);
}
