// SPDX-License-Identifier: Apache-2.0
// Training through the driver API alone, as launchers that bring their own code do (Triton, XLA): libcuda is
// opened at run time, all functions come from cuGetProcAddress and all kernels from a text of PTX; no symbol
// of CUDA is linked. Stall: in every step the host waits for the device to look at the loss, and only then
// works on its metrics, during which the device has nothing to do. With `--compile-every` N, each Nth step
// compiles its kernels again for `--compile-ms` and loads them, up to step `--compile-until`.
#include <cudaTypedefs.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "metrics.h"
#include "options.h"
#include "phase_log.h"

#define CHECK(call)                                                                          \
  do {                                                                                       \
    const CUresult check_error = (call);                                                     \
    if (check_error != CUDA_SUCCESS) {                                                       \
      std::fprintf(stderr, "%s:%d: %s: error %d\n", __FILE__, __LINE__, #call, check_error); \
      std::exit(1);                                                                          \
    }                                                                                        \
  } while (0)

// Kernels that store one value. Their names carry the duration they have on the simulated device.
static const char kImage[] = R"(.version 6.4
.target sm_75
.address_size 64
.visible .entry forward_2ms(.param .u64 to) { .reg .b64 %a; .reg .f32 %v; ld.param.u64 %a, [to];
  cvta.to.global.u64 %a, %a; ld.global.f32 %v, [%a]; add.f32 %v, %v, 0f3F800000; st.global.f32 [%a], %v; ret; }
.visible .entry backward_4ms(.param .u64 to) { .reg .b64 %a; .reg .f32 %v; ld.param.u64 %a, [to];
  cvta.to.global.u64 %a, %a; ld.global.f32 %v, [%a]; mul.f32 %v, %v, 0f3F000000; st.global.f32 [%a], %v; ret; }
.visible .entry optimizer_500us(.param .u64 to) { .reg .b64 %a; .reg .f32 %v; ld.param.u64 %a, [to];
  cvta.to.global.u64 %a, %a; ld.global.f32 %v, [%a]; neg.f32 %v, %v; st.global.f32 [%a], %v; ret; }
)";

constexpr unsigned kBlocks = 2048, kThreads = 256;  // fills a device

class Driver {
 public:
  Driver() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library) get_ = reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(library, "cuGetProcAddress_v2"));
    if (!get_) {
      std::fprintf(stderr, "no CUDA driver from 12.0 on\n");
      std::exit(1);
    }
  }
  template <class Function>
  Function function(const char* name, int version) const {
    void* found = nullptr;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    CHECK(get_(name, &found, version, CU_GET_PROC_ADDRESS_DEFAULT, &status));
    if (status != CU_GET_PROC_ADDRESS_SUCCESS) {
      std::fprintf(stderr, "the driver has no %s\n", name);
      std::exit(1);
    }
    return reinterpret_cast<Function>(found);
  }

 private:
  PFN_cuGetProcAddress_v12000 get_ = nullptr;
};

#define GET(name, version) const auto name = driver.function<PFN_##name##_v##version>(#name, version)

int main(int argc, char** argv) {
  const Options o(
      argc, argv,
      {{"steps", 50}, {"metrics-ms", 3}, {"compile-every", 0}, {"compile-ms", 20}, {"compile-until", 1e9}});
  const Driver driver;
  GET(cuInit, 2000);
  GET(cuDevicePrimaryCtxRetain, 7000);
  GET(cuCtxSetCurrent, 4000);
  GET(cuModuleLoadData, 2000);
  GET(cuModuleGetFunction, 2000);
  GET(cuMemAlloc, 3020);
  GET(cuMemFree, 3020);
  GET(cuMemAllocHost, 3020);
  GET(cuMemFreeHost, 2000);
  GET(cuStreamCreate, 2000);
  GET(cuStreamSynchronize, 2000);
  GET(cuMemcpyDtoHAsync, 3020);
  GET(cuLaunchKernel, 4000);
  GET(cuLaunchKernelEx, 11060);

  CHECK(cuInit(0));
  CUcontext context;
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  CUmodule module;
  CHECK(cuModuleLoadData(&module, kImage));
  CUfunction forward, backward, optimizer;
  CHECK(cuModuleGetFunction(&forward, module, "forward_2ms"));
  CHECK(cuModuleGetFunction(&backward, module, "backward_4ms"));
  CHECK(cuModuleGetFunction(&optimizer, module, "optimizer_500us"));
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUdeviceptr weights;
  void* loss;
  CHECK(cuMemAlloc(&weights, 1 << 20));
  CHECK(cuMemAllocHost(&loss, sizeof(float)));
  *static_cast<float*>(loss) = 0;

  CUlaunchConfig shape{};
  shape.gridDimX = kBlocks;
  shape.blockDimX = kThreads;
  shape.gridDimY = shape.gridDimZ = shape.blockDimY = shape.blockDimZ = 1;
  shape.hStream = stream;
  void* arguments[] = {&weights};
  std::vector<float> window;
  float mean = 0;
  for (long step = 0; step < o.integer("steps"); ++step) {
    phase_log::Scope phase("step", step);
    if (o.on("compile-every") && step % o.integer("compile-every") == 0 && step < o.number("compile-until")) {
      phase_log::Scope compile("compile", step);
      const timespec wanted = {0,
                               static_cast<long>(o.number("compile-ms") * 1e6)};  // another process compiles
      nanosleep(&wanted, nullptr);
      CUmodule again;
      CHECK(cuModuleLoadData(&again, kImage));
    }
    {
      phase_log::Scope launch("launch", step);
      CHECK(cuLaunchKernel(forward, kBlocks, 1, 1, kThreads, 1, 1, 0, stream, arguments, nullptr));
      CHECK(cuLaunchKernel(backward, kBlocks, 1, 1, kThreads, 1, 1, 0, stream, arguments, nullptr));
      CHECK(cuLaunchKernelEx(&shape, optimizer, arguments, nullptr));
      CHECK(cuMemcpyDtoHAsync(loss, weights, sizeof(float), stream));
    }
    {
      phase_log::Scope sync("sync", step);
      CHECK(cuStreamSynchronize(stream));
    }
    phase_log::Scope metrics("metrics", step);
    mean = update_metrics(window, *static_cast<float*>(loss), o.number("metrics-ms"));
  }
  std::printf("mean loss %g\n", static_cast<double>(mean));
  CHECK(cuMemFreeHost(loss));
  CHECK(cuMemFree(weights));
}
