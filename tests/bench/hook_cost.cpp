// SPDX-License-Identifier: Apache-2.0
// What a hooked call costs its caller. Each function is called twice over: through the dynamic linker,
// where the preloaded library stands in front of it, and directly in the library that defines it, where
// nothing does. The difference within one run is the hook. scripts/bench.py runs this with the library off,
// dormant and recording.
//   launch     cudaLaunchKernel: recorded, one slot
//   copy       cudaMemcpyAsync: recorded with its detail, two slots
//   semaphore  sem_post and sem_wait that do not block: timed, below the threshold, not recorded
//   read       read of nothing: timed and counted, below the threshold, not recorded
#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <semaphore.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {

// Enough to outlast a timer tick, few enough that nine repetitions of all fit the default budget of 512 MiB.
constexpr int kCalls = 400'000;
constexpr int kRepetitions = 9;

template <class Function>
Function* defined_in(const char* library, const char* name) {
  void* handle = dlopen(library, RTLD_LAZY);
  auto* function = handle ? reinterpret_cast<Function*>(dlsym(handle, name)) : nullptr;
  if (!function) {
    std::fprintf(stderr, "hook_cost: %s has no %s\n", library, name);
    std::exit(2);
  }
  return function;
}

using Launch = decltype(cudaLaunchKernel);
using Copy = cudaError_t(void*, const void*, size_t, cudaMemcpyKind, cudaStream_t);
using Wait = decltype(sem_wait);
using Read = decltype(read);

void launch(benchmark::State& state, Launch* function) {
  for (auto _ : state) benchmark::DoNotOptimize(function(nullptr, dim3(1), dim3(32), nullptr, 0, nullptr));
}

void copy(benchmark::State& state, Copy* function) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(function(nullptr, nullptr, 4096, cudaMemcpyHostToDevice, nullptr));
  }
}

void semaphore(benchmark::State& state, Wait* function) {
  sem_t sem;
  sem_init(&sem, 0, 0);
  for (auto _ : state) {
    sem_post(&sem);
    benchmark::DoNotOptimize(function(&sem));
  }
  sem_destroy(&sem);
}

void read_nothing(benchmark::State& state, Read* function) {
  const int fd = open("/dev/null", O_RDONLY);
  char byte;
  for (auto _ : state) benchmark::DoNotOptimize(function(fd, &byte, 1));
  close(fd);
}

template <class Body, class Function>
void add(const char* name, Body body, Function* hooked, Function* direct) {
  const auto add_one = [&](const char* how, Function* function) {
    const std::string full = std::string(name) + "/" + how;
    benchmark::RegisterBenchmark(full.c_str(), [=](benchmark::State& state) { body(state, function); })
        ->Iterations(kCalls)
        ->Repetitions(kRepetitions);
  };
  add_one("direct", direct);
  add_one("hooked", hooked);
}

}  // namespace

int main(int argc, char** argv) {
  // As a dynamic linker's look-up would find them: the preloaded definition first.
  void* const global = RTLD_DEFAULT;
  const auto hooked = [global]<class F>(const char* name, F*) {
    return reinterpret_cast<F*>(dlsym(global, name));
  };
  add("semaphore", semaphore, hooked("sem_wait", static_cast<Wait*>(nullptr)),
      defined_in<Wait>("libc.so.6", "sem_wait"));
  add("read", read_nothing, hooked("read", static_cast<Read*>(nullptr)),
      defined_in<Read>("libc.so.6", "read"));
  // "--calls=waits" leaves CUDA alone, so that the process stays dormant.
  const bool waits_only = argc > 1 && std::string_view(argv[1]) == "--calls=waits";
  if (!waits_only) {
    add("launch", launch, hooked("cudaLaunchKernel", static_cast<Launch*>(nullptr)),
        defined_in<Launch>("libcudart.so.13", "cudaLaunchKernel"));
    add("copy", copy, hooked("cudaMemcpyAsync", static_cast<Copy*>(nullptr)),
        defined_in<Copy>("libcudart.so.13", "cudaMemcpyAsync"));
    cudaLaunchKernel(nullptr, dim3(1), dim3(32), nullptr, 0,
                     nullptr);  // recording starts here, before the waits
  }
  if (waits_only) {
    argv[1] = argv[0];
    --argc;
    ++argv;
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
