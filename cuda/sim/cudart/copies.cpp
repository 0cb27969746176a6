// SPDX-License-Identifier: Apache-2.0
// Copies and fills, in all their shapes. core/copy.h says how long each takes and when the caller is blocked.
#include "core/copy.h"

#include "runtime.h"

using namespace gpuwatch::sim;

namespace {

bool known_to_device(const void* pointer) {
  return Memory::instance().find(pointer).has_value();
}

// A kind that contradicts the pointers is the program's mistake, and the runtime says so.
bool plausible(const void* dst, const void* src, cudaMemcpyKind kind) {
  if (kind == cudaMemcpyHostToDevice) return known_to_device(dst);
  if (kind == cudaMemcpyDeviceToHost) return known_to_device(src);
  if (kind == cudaMemcpyDeviceToDevice) return known_to_device(dst) && known_to_device(src);
  return kind == cudaMemcpyDefault || kind == cudaMemcpyHostToHost;
}

cudaError_t run(RuntimeCall& call, void* dst, const void* src, const CopyShape& shape, cudaMemcpyKind kind,
                cudaStream_t stream, bool async) {
  return call.done(run_copy(call, dst, src, shape, resolve(stream), async, plausible(dst, src, kind)));
}

cudaError_t fill(RuntimeCall& call, void* dst, int value, const CopyShape& shape, cudaStream_t stream,
                 bool async) {
  return call.done(run_fill(call, dst, value, shape, resolve(stream), async));
}

CopyShape plane(size_t dst_pitch, size_t src_pitch, size_t width, size_t height) {
  CopyShape shape{width};
  shape.height = height;
  shape.dst_pitch_bytes = dst_pitch;
  shape.src_pitch_bytes = src_pitch;
  return shape;
}

cudaError_t run_volume(RuntimeCall& call, const cudaMemcpy3DParms* p, cudaStream_t stream, bool async) {
  if (!p || p->srcArray || p->dstArray) return call.done(cudaErrorInvalidValue);  // arrays are not simulated
  CopyShape shape = plane(p->dstPtr.pitch, p->srcPtr.pitch, p->extent.width, p->extent.height);
  shape.depth = p->extent.depth;
  shape.dst_slice_bytes = p->dstPtr.pitch * p->dstPtr.ysize;
  shape.src_slice_bytes = p->srcPtr.pitch * p->srcPtr.ysize;
  const auto start = [](const cudaPitchedPtr& base, const cudaPos& at) {
    return static_cast<char*>(base.ptr) + (at.z * base.ysize + at.y) * base.pitch + at.x;
  };
  return run(call, start(p->dstPtr, p->dstPos), start(p->srcPtr, p->srcPos), shape, p->kind, stream, async);
}

cudaError_t run_symbol(RuntimeCall& call, const void* symbol, void* host_dst, const void* host_src,
                       size_t count, size_t offset, cudaMemcpyKind kind, cudaStream_t stream, bool async) {
  void* address = nullptr;
  size_t size_bytes = 0;
  if (!find_symbol(symbol, &address, &size_bytes)) return call.done(cudaErrorInvalidSymbol);
  if (offset + count > size_bytes) return call.done(cudaErrorInvalidValue);
  char* at = static_cast<char*>(address) + offset;
  if (host_src) return run(call, at, host_src, {count}, kind, stream, async);
  return run(call, host_dst, at, {count}, kind, stream, async);
}

cudaError_t run_peer(RuntimeCall& call, void* dst, const void* src, size_t count, cudaStream_t handle,
                     bool async) {
  Stream* stream = resolve(handle);
  if (!stream) return call.done(cudaErrorInvalidResourceHandle);
  if (!known_to_device(dst) || !known_to_device(src)) return call.done(cudaErrorInvalidValue);
  call.waited(copy_peer(dst, src, count, *stream, async, call.correlation()));
  return call.done();
}

}  // namespace

GWSIM_EXPORT cudaError_t cudaMemcpy(void* dst, const void* src, size_t count, cudaMemcpyKind kind) {
  GWSIM_CALL(cudaMemcpy);
  return run(call, dst, src, {count}, kind, nullptr, false);
}
GWSIM_EXPORT cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t count, cudaMemcpyKind kind,
                                         cudaStream_t stream) {
  GWSIM_CALL(cudaMemcpyAsync);
  return run(call, dst, src, {count}, kind, stream, true);
}
GWSIM_EXPORT cudaError_t cudaMemcpy2D(void* dst, size_t dst_pitch, const void* src, size_t src_pitch,
                                      size_t width, size_t height, cudaMemcpyKind kind) {
  GWSIM_CALL(cudaMemcpy2D);
  return run(call, dst, src, plane(dst_pitch, src_pitch, width, height), kind, nullptr, false);
}
GWSIM_EXPORT cudaError_t cudaMemcpy2DAsync(void* dst, size_t dst_pitch, const void* src, size_t src_pitch,
                                           size_t width, size_t height, cudaMemcpyKind kind,
                                           cudaStream_t stream) {
  GWSIM_CALL(cudaMemcpy2DAsync);
  return run(call, dst, src, plane(dst_pitch, src_pitch, width, height), kind, stream, true);
}
GWSIM_EXPORT cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* parameters) {
  GWSIM_CALL(cudaMemcpy3D);
  return run_volume(call, parameters, nullptr, false);
}
GWSIM_EXPORT cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* parameters, cudaStream_t stream) {
  GWSIM_CALL(cudaMemcpy3DAsync);
  return run_volume(call, parameters, stream, true);
}
GWSIM_EXPORT cudaError_t cudaMemcpyPeer(void* dst, int, const void* src, int, size_t count) {
  GWSIM_CALL(cudaMemcpyPeer);
  return run_peer(call, dst, src, count, nullptr, false);
}
GWSIM_EXPORT cudaError_t cudaMemcpyPeerAsync(void* dst, int, const void* src, int, size_t count,
                                             cudaStream_t stream) {
  GWSIM_CALL(cudaMemcpyPeerAsync);
  return run_peer(call, dst, src, count, stream, true);
}
GWSIM_EXPORT cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* src, size_t count, size_t offset,
                                            cudaMemcpyKind kind) {
  GWSIM_CALL(cudaMemcpyToSymbol);
  return run_symbol(call, symbol, nullptr, src, count, offset, kind, nullptr, false);
}
GWSIM_EXPORT cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* src, size_t count,
                                                 size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  GWSIM_CALL(cudaMemcpyToSymbolAsync);
  return run_symbol(call, symbol, nullptr, src, count, offset, kind, stream, true);
}
GWSIM_EXPORT cudaError_t cudaMemcpyFromSymbol(void* dst, const void* symbol, size_t count, size_t offset,
                                              cudaMemcpyKind kind) {
  GWSIM_CALL(cudaMemcpyFromSymbol);
  return run_symbol(call, symbol, dst, nullptr, count, offset, kind, nullptr, false);
}
GWSIM_EXPORT cudaError_t cudaMemcpyFromSymbolAsync(void* dst, const void* symbol, size_t count, size_t offset,
                                                   cudaMemcpyKind kind, cudaStream_t stream) {
  GWSIM_CALL(cudaMemcpyFromSymbolAsync);
  return run_symbol(call, symbol, dst, nullptr, count, offset, kind, stream, true);
}

GWSIM_EXPORT cudaError_t cudaMemset(void* dst, int value, size_t count) {
  GWSIM_CALL(cudaMemset);
  return fill(call, dst, value, {count}, nullptr, false);
}
GWSIM_EXPORT cudaError_t cudaMemsetAsync(void* dst, int value, size_t count, cudaStream_t stream) {
  GWSIM_CALL(cudaMemsetAsync);
  return fill(call, dst, value, {count}, stream, true);
}
GWSIM_EXPORT cudaError_t cudaMemset2D(void* dst, size_t pitch, int value, size_t width, size_t height) {
  GWSIM_CALL(cudaMemset2D);
  return fill(call, dst, value, plane(pitch, 0, width, height), nullptr, false);
}
GWSIM_EXPORT cudaError_t cudaMemset2DAsync(void* dst, size_t pitch, int value, size_t width, size_t height,
                                           cudaStream_t stream) {
  GWSIM_CALL(cudaMemset2DAsync);
  return fill(call, dst, value, plane(pitch, 0, width, height), stream, true);
}
GWSIM_EXPORT cudaError_t cudaMemset3D(cudaPitchedPtr dst, int value, cudaExtent extent) {
  GWSIM_CALL(cudaMemset3D);
  CopyShape shape = plane(dst.pitch, 0, extent.width, extent.height);
  shape.depth = extent.depth;
  shape.dst_slice_bytes = dst.pitch * dst.ysize;
  return fill(call, dst.ptr, value, shape, nullptr, false);
}
GWSIM_EXPORT cudaError_t cudaMemset3DAsync(cudaPitchedPtr dst, int value, cudaExtent extent,
                                           cudaStream_t stream) {
  GWSIM_CALL(cudaMemset3DAsync);
  CopyShape shape = plane(dst.pitch, 0, extent.width, extent.height);
  shape.depth = extent.depth;
  shape.dst_slice_bytes = dst.pitch * dst.ysize;
  return fill(call, dst.ptr, value, shape, stream, true);
}
