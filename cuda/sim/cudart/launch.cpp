// SPDX-License-Identifier: Apache-2.0
// Kernel launches, by both ABIs: cudaLaunchKernel up to CUDA 12, __cudaLaunchKernel from 13.
#include <vector>

#include "core/launch.h"
#include "runtime.h"

namespace gpuwatch::sim {

namespace {

struct Configuration {
  dim3 grid;
  dim3 block;
  size_t shared_bytes;
  void** arguments = nullptr;
};

struct CallConfiguration {
  Configuration shape;
  cudaStream_t stream;
};
thread_local std::vector<CallConfiguration> t_configurations;

cudaError_t launch(RuntimeCall& call, const Kernel* kernel, const Configuration& c, cudaStream_t handle) {
  Stream* stream = resolve(handle);
  if (!kernel) return call.done(cudaErrorInvalidDeviceFunction);
  if (!stream) return call.done(cudaErrorInvalidResourceHandle);
  const LaunchShape shape{{c.grid.x, c.grid.y, c.grid.z},
                          {c.block.x, c.block.y, c.block.z},
                          static_cast<uint32_t>(c.shared_bytes),
                          c.arguments};
  const bool fits = launch(*kernel, shape, *stream, call.correlation(), call.begin_ns());
  return call.done(fits ? cudaSuccess : cudaErrorInvalidConfiguration);
}

}  // namespace

}  // namespace gpuwatch::sim

using namespace gpuwatch::sim;

GWSIM_EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                                  cudaStream_t stream) {
  t_configurations.push_back({{grid, block, shared_bytes}, stream});
  return 0;
}

GWSIM_EXPORT cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                                    void* stream) {
  if (t_configurations.empty()) return cudaErrorMissingConfiguration;
  const CallConfiguration& c = t_configurations.back();
  *grid = c.shape.grid;
  *block = c.shape.block;
  *shared_bytes = c.shape.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = c.stream;
  t_configurations.pop_back();
  return cudaSuccess;
}

GWSIM_EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t handle, dim3 grid, dim3 block, void** arguments,
                                            size_t shared_bytes, cudaStream_t stream) {
  const Kernel* kernel = find_kernel(handle);
  GWSIM_LAUNCH_CALL(__cudaLaunchKernel, name_of(kernel));
  return launch(call, kernel, {grid, block, shared_bytes, arguments}, stream);
}

GWSIM_EXPORT cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t handle, dim3 grid, dim3 block, void** arguments,
                                                 size_t shared_bytes, cudaStream_t stream) {
  GWSIM_INFO(__cudaLaunchKernel_ptsz);
  PerThreadDefault scope(kInfo);
  return __cudaLaunchKernel(handle, grid, block, arguments, shared_bytes, stream);
}

GWSIM_EXPORT cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                          size_t shared_bytes, cudaStream_t stream) {
  const Kernel* kernel = find_kernel(function);
  GWSIM_LAUNCH_CALL(cudaLaunchKernel, name_of(kernel));
  return launch(call, kernel, {grid, block, shared_bytes, arguments}, stream);
}

GWSIM_EXPORT cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block,
                                                     void** arguments, size_t shared_bytes,
                                                     cudaStream_t stream) {
  const Kernel* kernel = find_kernel(function);
  GWSIM_LAUNCH_CALL(cudaLaunchCooperativeKernel, name_of(kernel));
  return launch(call, kernel, {grid, block, shared_bytes, arguments}, stream);
}

GWSIM_EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* function,
                                             void** arguments) {
  const Kernel* kernel = find_kernel(function);
  GWSIM_LAUNCH_CALL(cudaLaunchKernelExC, name_of(kernel));
  if (!c) return call.done(cudaErrorInvalidValue);
  return launch(call, kernel, {c->gridDim, c->blockDim, c->dynamicSmemBytes, arguments}, c->stream);
}

GWSIM_EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  GWSIM_CALL(cudaLaunchHostFunc);
  Stream* stream = resolve(handle);
  if (!stream) return call.done(cudaErrorInvalidResourceHandle);
  if (!function) return call.done(cudaErrorInvalidValue);
  launch_host_function([function, data] { function(data); }, *stream, call.correlation());
  return call.done();
}

GWSIM_EXPORT cudaError_t cudaStreamAddCallback(cudaStream_t handle, cudaStreamCallback_t callback, void* data,
                                               unsigned) {
  GWSIM_CALL(cudaStreamAddCallback);
  Stream* stream = resolve(handle);
  if (!stream) return call.done(cudaErrorInvalidResourceHandle);
  if (!callback) return call.done(cudaErrorInvalidValue);
  if (is_capturing(*stream)) return call.done(cudaErrorStreamCaptureUnsupported);
  Op op;
  op.kind = OpKind::kHostFunction;
  op.correlation = call.correlation();
  op.host_function = [callback, handle, data] { callback(handle, cudaSuccess, data); };
  issue(*stream, std::move(op));
  return call.done();
}
