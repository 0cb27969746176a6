// SPDX-License-Identifier: Apache-2.0
// Kernel launches, by both ABIs: cudaLaunchKernel up to CUDA 12, __cudaLaunchKernel from 13.
#include <vector>

#include "runtime.h"

namespace gpuwatch::sim {

namespace {

struct LaunchShape {
  dim3 grid;
  dim3 block;
  size_t shared_bytes;
};

struct CallConfiguration {
  LaunchShape shape;
  cudaStream_t stream;
};
thread_local std::vector<CallConfiguration> t_configurations;

const char* name_of(const Kernel* kernel) {
  return kernel ? kernel->name() : nullptr;
}

cudaError_t launch(RuntimeCall& call, const Kernel* kernel, const LaunchShape& shape, cudaStream_t handle) {
  Stream* stream = resolve(handle);
  if (!kernel) return call.done(cudaErrorInvalidDeviceFunction);
  if (!stream) return call.done(cudaErrorInvalidResourceHandle);
  const uint64_t threads = uint64_t{shape.block.x} * shape.block.y * shape.block.z;
  const uint64_t blocks = uint64_t{shape.grid.x} * shape.grid.y * shape.grid.z;
  if (threads == 0 || threads > 1024 || blocks == 0) return call.done(cudaErrorInvalidConfiguration);

  Op op;
  op.kind = OpKind::kKernel;
  op.kernel = kernel;
  op.correlation = call.correlation();
  op.grid[0] = shape.grid.x, op.grid[1] = shape.grid.y, op.grid[2] = shape.grid.z;
  op.block[0] = shape.block.x, op.block[1] = shape.block.y, op.block[2] = shape.block.z;
  op.shared_bytes = static_cast<uint32_t>(shape.shared_bytes);
  op.duration_ns = kernel->duration_ns(blocks);
  op.latency_ns = config().launch_latency_ns;
  issue(*stream, std::move(op));
  spin_until(call.begin_ns() + config().launch_cost_ns);  // of which the stand-in itself needs about 0.6 us
  return call.done();
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

GWSIM_EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t handle, dim3 grid, dim3 block, void**,
                                            size_t shared_bytes, cudaStream_t stream) {
  const Kernel* kernel = find_kernel(handle);
  GWSIM_LAUNCH_CALL(__cudaLaunchKernel, name_of(kernel));
  return launch(call, kernel, {grid, block, shared_bytes}, stream);
}

GWSIM_EXPORT cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t handle, dim3 grid, dim3 block, void** arguments,
                                                 size_t shared_bytes, cudaStream_t stream) {
  GWSIM_INFO(__cudaLaunchKernel_ptsz);
  PerThreadDefault scope(kInfo);
  return __cudaLaunchKernel(handle, grid, block, arguments, shared_bytes, stream);
}

GWSIM_EXPORT cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void**,
                                          size_t shared_bytes, cudaStream_t stream) {
  const Kernel* kernel = find_kernel(function);
  GWSIM_LAUNCH_CALL(cudaLaunchKernel, name_of(kernel));
  return launch(call, kernel, {grid, block, shared_bytes}, stream);
}

GWSIM_EXPORT cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void**,
                                                     size_t shared_bytes, cudaStream_t stream) {
  const Kernel* kernel = find_kernel(function);
  GWSIM_LAUNCH_CALL(cudaLaunchCooperativeKernel, name_of(kernel));
  return launch(call, kernel, {grid, block, shared_bytes}, stream);
}

GWSIM_EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* function, void**) {
  const Kernel* kernel = find_kernel(function);
  GWSIM_LAUNCH_CALL(cudaLaunchKernelExC, name_of(kernel));
  if (!c) return call.done(cudaErrorInvalidValue);
  return launch(call, kernel, {c->gridDim, c->blockDim, c->dynamicSmemBytes}, c->stream);
}

GWSIM_EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  GWSIM_CALL(cudaLaunchHostFunc);
  Stream* stream = resolve(handle);
  if (!stream) return call.done(cudaErrorInvalidResourceHandle);
  if (!function) return call.done(cudaErrorInvalidValue);
  Op op;
  op.kind = OpKind::kHostFunction;
  op.correlation = call.correlation();
  op.host_function = [function, data] { function(data); };
  issue(*stream, std::move(op));
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
