// SPDX-License-Identifier: Apache-2.0
// A C++ trainer on video clips: decoder threads fill a ring of host buffers, which are copied and trained on.
//   video_reader [--decoders N] [--pinned 1] [--clip-ms N] [--steps N]
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#define CUDA(call)                                                                 \
  if (cudaError_t e = (call)) {                                                    \
    std::fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e)); \
    std::exit(1);                                                                  \
  }

__global__ void forward_3ms(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i];
}
__global__ void backward_5ms(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] += in[i];
}

static int option(int argc, char** argv, const char* name, int value) {
  for (int i = 1; i + 1 < argc; ++i)
    if (!std::strcmp(argv[i], name)) value = std::atoi(argv[i + 1]);
  return value;
}

class Ring {
 public:
  Ring(int buffers, size_t bytes, bool pinned, int clips) : left_(clips) {
    for (int i = 0; i < buffers; ++i) {
      void* p = nullptr;
      if (pinned) {
        CUDA(cudaMallocHost(&p, bytes));
      } else {
        p = std::malloc(bytes);
      }
      std::memset(p, 0, bytes);
      empty_.push_back(p);
    }
  }
  void decode(int ms) {
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return !left_ || !empty_.empty(); });
      if (!left_) return;
      --left_;
      void* clip = empty_.front();
      empty_.pop_front();
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::milliseconds(ms));  // the hardware decoder
      lock.lock();
      full_.push_back(clip);
      changed_.notify_all();
    }
  }
  void* take() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !full_.empty(); });
    void* clip = full_.front();
    full_.pop_front();
    return clip;
  }
  void give_back(void* clip) {
    std::lock_guard<std::mutex> lock(mutex_);
    empty_.push_back(clip);
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<void*> empty_, full_;
  int left_;
};

int main(int argc, char** argv) {
  const int steps = option(argc, argv, "--steps", 300), decoders = option(argc, argv, "--decoders", 1);
  const int ms = option(argc, argv, "--clip-ms", 24);
  constexpr size_t bytes = size_t{24} << 20;
  constexpr int n = 1 << 22, warmup = 20;
  Ring ring(2 * decoders + 2, bytes, option(argc, argv, "--pinned", 0) != 0, steps);
  std::vector<std::thread> threads;
  for (int i = 0; i < decoders; ++i) threads.emplace_back([&] { ring.decode(ms); });
  float *input, *weights;
  CUDA(cudaMalloc(&input, bytes));
  CUDA(cudaMalloc(&weights, bytes));
  auto began = std::chrono::steady_clock::now();
  for (int step = 0; step < steps; ++step) {
    if (step == warmup) {
      CUDA(cudaDeviceSynchronize());
      began = std::chrono::steady_clock::now();
    }
    void* clip = ring.take();
    CUDA(cudaMemcpyAsync(input, clip, bytes, cudaMemcpyHostToDevice));
    forward_3ms<<<n / 256, 256>>>(input, weights, n);
    backward_5ms<<<n / 256, 256>>>(input, weights, n);
    CUDA(cudaStreamSynchronize(nullptr));
    ring.give_back(clip);
  }
  CUDA(cudaDeviceSynchronize());
  const double step_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count() /
      (steps - warmup);
  for (std::thread& thread : threads) thread.join();
  std::printf("{\"step_ms\": %.4f, \"steps\": %d, \"samples_per_s\": %.3f}\n", step_ms, steps - warmup,
              1e3 / step_ms);
}
