// SPDX-License-Identifier: Apache-2.0
// A program that uses CUDA in the ways that a CUPTI session must cope with; the first argument chooses one.
//   around   one call through the hooked symbol, then the runtime and the driver by pointers, as a static
//            runtime or Triton's launcher does
//   holder   subscribes to CUPTI itself before it uses CUDA
//   fork     forks while the session is up; the child uses its CUDA functions (they may fail) and exits
//   use      ten memsets and a synchronization
//   flood    more operations behind one another than there is room for records of
//   quick    as use; leaves by _exit before the records of finished work were fetched
//   leave    returns from main with work of each kind that the device has not come to
//   mixed    work of each kind, until it is killed
//   rare     calls that few programs make, of each kind one; the simulated device refuses most of them
//   streams  a fill on each of 3200 streams of the second device
//   shapes   launches of one kernel with 14 050 grids, and after most of them the first launch of another
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cupti.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "guest: %s\n", what);
  std::_Exit(3);
}

void require(int result, const char* what) {
  if (result) fail(what);
}

// The library's own definition, past whatever is preloaded.
template <class Function>
Function* in(const char* library, const char* name) {
  void* handle = dlopen(library, RTLD_LAZY);
  auto* function = handle ? reinterpret_cast<Function*>(dlsym(handle, name)) : nullptr;
  if (!function) fail(name);
  return function;
}

constexpr char kRuntime[] = "libcudart.so.13", kDriver[] = "libcuda.so.1";

using Memset = cudaError_t(void*, int, size_t, cudaStream_t);

void* allocate(size_t bytes) {
  void* memory = nullptr;
  require(cudaMalloc(&memory, bytes), "cudaMalloc");
  return memory;
}

void around() {
  void* memory = allocate(1 << 20);
  require(in<Memset>(kRuntime, "cudaMemsetAsync")(memory, 0, 4096, nullptr), "cudaMemsetAsync");
  CUmodule module;
  CUfunction function;
  require(in<decltype(cuModuleLoadData)>(kDriver, "cuModuleLoadData")(&module, ""), "cuModuleLoadData");
  require(in<decltype(cuModuleGetFunction)>(kDriver, "cuModuleGetFunction")(&function, module, "triton_2ms"),
          "cuModuleGetFunction");
  auto* launch = in<decltype(cuLaunchKernel)>(kDriver, "cuLaunchKernel");
  for (int i = 0; i < 3; ++i)
    require(launch(function, 4, 2, 1, 128, 1, 1, 64, nullptr, nullptr, nullptr), "cuLaunchKernel");
  require(in<cudaError_t()>(kRuntime, "cudaDeviceSynchronize")(), "cudaDeviceSynchronize");
}

void CUPTIAPI ignore(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

void holder() {
  CUpti_SubscriberHandle subscriber;
  CUpti_SubscriberParams params{};
  params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
  params.subscriberName = "somebody else";
  require(in<decltype(cuptiSubscribe_v2)>("libcupti.so.13", "cuptiSubscribe_v2")(&subscriber, ignore, nullptr,
                                                                                 &params),
          "cuptiSubscribe_v2");
  require(cudaMemset(allocate(4096), 0, 4096), "cudaMemset");
  require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

void use_device() {
  void* memory = allocate(1 << 20);
  for (int i = 0; i < 10; ++i) require(cudaMemsetAsync(memory, i, 1 << 20, nullptr), "cudaMemsetAsync");
  require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

// The first operation keeps the device for seconds, so that no record behind it is complete and no
// buffer comes back.
void flood() {
  constexpr int kOperations = 230'000;
  constexpr size_t kSlowBytes = 8 << 20;
  void* memory = allocate(kSlowBytes);
  require(cudaMemsetAsync(memory, 0, kSlowBytes, nullptr), "cudaMemsetAsync");
  for (int i = 1; i < kOperations; ++i) require(cudaMemsetAsync(memory, 0, 1, nullptr), "cudaMemsetAsync");
  require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  sleep(4);  // to be fetched: at its end a program is held up for no more than 100 ms
}

void make_rare_calls() {
  void* memory = allocate(4096);
  cudaIpcMemHandle_t handle{};
  cudaIpcEventHandle_t event_handle{};
  cudaEvent_t event;
  cudaLibrary_t library;
  cudaMemLocation location{cudaMemLocationTypeDevice, 0};
  size_t bytes = 4096, first = 0;
  cudaDeviceEnablePeerAccess(0, 0);
  cudaDeviceDisablePeerAccess(0);
  cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess);
  cudaIpcCloseMemHandle(memory);
  cudaIpcOpenEventHandle(&event, event_handle);
  cudaMemcpy2DArrayToArray(nullptr, 0, 0, nullptr, 0, 0, 16, 16, cudaMemcpyDeviceToDevice);
  cudaMemPrefetchBatchAsync(&memory, &bytes, 1, &location, &first, 1, 0, nullptr);
  cudaMemDiscardBatchAsync(&memory, &bytes, 1, 0, nullptr);
  cudaGraphExecKernelNodeSetParams(nullptr, nullptr, nullptr);
  cudaLibraryLoadData(&library, "", nullptr, nullptr, 0, nullptr, nullptr, 0);
}

void use_streams() {
  require(cudaSetDevice(1), "cudaSetDevice");
  void* memory = allocate(4096);
  for (int i = 0; i < 3200; ++i) {
    cudaStream_t stream = nullptr;
    require(cudaStreamCreate(&stream), "cudaStreamCreate");
    require(cudaMemsetAsync(memory, 0, 4096, stream), "cudaMemsetAsync");
    require(cudaStreamDestroy(stream), "cudaStreamDestroy");
  }
  require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

void launch_shapes() {
  allocate(4096);  // creates the context
  CUmodule module;
  CUfunction varied, late;
  auto* get = in<decltype(cuModuleGetFunction)>(kDriver, "cuModuleGetFunction");
  require(in<decltype(cuModuleLoadData)>(kDriver, "cuModuleLoadData")(&module, ""), "cuModuleLoadData");
  require(get(&varied, module, "varied_1us") || get(&late, module, "late_1us"), "cuModuleGetFunction");
  auto* launch = in<decltype(cuLaunchKernel)>(kDriver, "cuLaunchKernel");
  const auto with_grid = [&](CUfunction kernel, unsigned grid) {
    require(launch(kernel, grid, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr), "cuLaunchKernel");
  };
  for (unsigned i = 1; i <= 14'000; ++i) with_grid(varied, i);
  require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  sleep(1);  // these are fetched
  with_grid(late, 7);
  for (unsigned i = 0; i < 50; ++i) with_grid(varied, 20'000 + i);
  require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

// Each kind of work that leaves a device record, and calls that leave none.
class Mixed {
 public:
  Mixed() {
    require(cudaMallocHost(&host_, kBytes), "cudaMallocHost");
    CUmodule module;
    auto* get = in<decltype(cuModuleGetFunction)>(kDriver, "cuModuleGetFunction");
    require(in<decltype(cuModuleLoadData)>(kDriver, "cuModuleLoadData")(&module, ""), "cuModuleLoadData");
    require(get(&short_, module, "mixed_20us") || get(&long_, module, "hold_4000ms"), "cuModuleGetFunction");
    require(cudaStreamCreate(&stream_), "cudaStreamCreate");
    require(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
    require(cudaMemsetAsync(device_, 1, kBytes, stream_), "captured cudaMemsetAsync");
    require(cudaMemcpyAsync(host_, device_, kBytes, cudaMemcpyDeviceToHost, stream_), "captured copy");
    cudaGraph_t graph;
    require(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
    require(cudaGraphInstantiate(&graph_, graph, 0), "cudaGraphInstantiate");
  }

  void enqueue() {
    launch(short_);
    require(cudaMemsetAsync(device_, 0, kBytes, stream_), "cudaMemsetAsync");
    require(cudaMemcpyAsync(device_, host_, kBytes, cudaMemcpyHostToDevice, stream_), "to the device");
    require(cudaMemcpyAsync(device_ + kBytes, device_, kBytes, cudaMemcpyDeviceToDevice, stream_), "copy");
    require(cudaMemcpyAsync(host_, device_, kBytes, cudaMemcpyDeviceToHost, stream_), "from the device");
    require(cudaGraphLaunch(graph_, stream_), "cudaGraphLaunch");
    require(cudaMemsetAsync(device_, 0, 0, stream_), "cudaMemsetAsync of nothing");
    require(cudaMemcpyAsync(device_, host_, 0, cudaMemcpyHostToDevice, stream_), "copy of nothing");
  }
  void enqueue_on_host() {
    char other[64];
    require(cudaMemcpy(other, host_, sizeof other, cudaMemcpyHostToHost), "copy on the host");
  }
  void hold_device_for_seconds() { launch(long_); }
  void wait() { require(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

 private:
  void launch(CUfunction kernel) {
    require(launch_(kernel, 8, 1, 1, 64, 1, 1, 0, stream_, nullptr, nullptr), "cuLaunchKernel");
  }

  static constexpr size_t kBytes = 64 << 10;
  decltype(cuLaunchKernel)* const launch_ = in<decltype(cuLaunchKernel)>(kDriver, "cuLaunchKernel");
  char* const device_ = static_cast<char*>(allocate(2 * kBytes));
  void* host_ = nullptr;
  CUfunction short_ = nullptr, long_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
};

void leave() {
  Mixed mixed;
  for (int i = 0; i < 20; ++i) mixed.enqueue();
  mixed.enqueue_on_host();
  mixed.wait();
  sleep(1);  // these are fetched
  mixed.hold_device_for_seconds();
  for (int i = 0; i < 20; ++i) mixed.enqueue();
}

[[noreturn]] void run_until_killed() {
  for (Mixed mixed;; usleep(20'000)) {
    for (int i = 0; i < 20; ++i) mixed.enqueue();
    mixed.wait();
  }
}

void forking() {
  use_device();
  const pid_t child = fork();
  if (child == 0) {
    int count = 0;
    cudaGetDeviceCount(&count);
    cudaDeviceSynchronize();
    std::exit(0);  // with exit handlers: none of ours may wait for a thread that the child does not have
  }
  int status = 0;
  waitpid(child, &status, 0);
  require(!WIFEXITED(status) || WEXITSTATUS(status), "child");
  use_device();
}

}  // namespace

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  if (!std::strcmp(mode, "around")) {
    around();
  } else if (!std::strcmp(mode, "holder")) {
    holder();
  } else if (!std::strcmp(mode, "fork")) {
    forking();
  } else if (!std::strcmp(mode, "use")) {
    use_device();
  } else if (!std::strcmp(mode, "flood")) {
    flood();
  } else if (!std::strcmp(mode, "quick")) {
    use_device();
    _exit(7);
  } else if (!std::strcmp(mode, "leave")) {
    leave();
  } else if (!std::strcmp(mode, "mixed")) {
    run_until_killed();
  } else if (!std::strcmp(mode, "rare")) {
    make_rare_calls();
  } else if (!std::strcmp(mode, "streams")) {
    use_streams();
  } else if (!std::strcmp(mode, "shapes")) {
    launch_shapes();
  } else {
    fail("around, holder, fork, use, flood, quick, leave, mixed, rare, streams or shapes");
  }
}
