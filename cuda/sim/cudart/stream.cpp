// SPDX-License-Identifier: Apache-2.0
#include "runtime.h"

namespace gpuwatch::sim {

namespace {

cudaError_t create(RuntimeCall& call, cudaStream_t* out, unsigned flags, int priority) {
  if (!out || (flags & ~static_cast<unsigned>(cudaStreamNonBlocking)))
    return call.done(cudaErrorInvalidValue);
  const StreamRule rule = flags & cudaStreamNonBlocking ? StreamRule::kNonBlocking : StreamRule::kBlocking;
  *out = handle_of(Timeline::instance().create_stream(current_device(), rule, priority));
  return call.done();
}

}  // namespace

}  // namespace gpuwatch::sim

using namespace gpuwatch::sim;

GWSIM_EXPORT cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  GWSIM_CALL(cudaStreamCreate);
  return create(call, stream, cudaStreamDefault, 0);
}
GWSIM_EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  GWSIM_CALL(cudaStreamCreateWithFlags);
  return create(call, stream, flags, 0);
}
GWSIM_EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  GWSIM_CALL(cudaStreamCreateWithPriority);
  return create(call, stream, flags, priority);
}

GWSIM_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  GWSIM_CALL(cudaStreamDestroy);
  Stream* stream = handle ? resolve(handle) : nullptr;
  if (!stream) return call.done(cudaErrorInvalidResourceHandle);
  Timeline::instance().destroy_stream(stream);
  return call.done();
}

GWSIM_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  GWSIM_CALL(cudaStreamSynchronize);
  Stream* stream = resolve(handle);
  if (!stream) return call.done(cudaErrorInvalidResourceHandle);
  if (is_capturing(*stream)) {
    invalidate_capture(*stream);
    return call.done(cudaErrorStreamCaptureUnsupported);
  }
  call.waited(Timeline::instance().wait_host(Timeline::instance().record(*stream)));
  report_sync(SyncKind::kStream, stream, 0, call, now_ns());
  return call.done();
}

GWSIM_EXPORT cudaError_t cudaStreamQuery(cudaStream_t handle) {
  GWSIM_SILENT_CALL(cudaStreamQuery);
  Stream* stream = resolve(handle);
  if (!stream) return call.done(cudaErrorInvalidResourceHandle);
  const bool idle = Timeline::passed(*Timeline::instance().record(*stream));
  return call.done(idle ? cudaSuccess : cudaErrorNotReady);
}

GWSIM_EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned) {
  GWSIM_CALL(cudaStreamWaitEvent);
  Stream* stream = resolve(handle);
  Event* event = resolve(event_handle);
  if (!stream || !event) return call.done(cudaErrorInvalidResourceHandle);
  if (!event->make_wait(*stream)) return call.done(cudaErrorStreamCaptureIsolation);
  report_sync(SyncKind::kStreamWaitEvent, stream, event->id, call, now_ns());
  return call.done();
}

GWSIM_EXPORT cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  GWSIM_SILENT_CALL(cudaStreamGetPriority);
  Stream* stream = resolve(handle);
  if (!stream || !priority) return call.done(cudaErrorInvalidResourceHandle);
  *priority = stream->priority;
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  GWSIM_SILENT_CALL(cudaStreamGetFlags);
  Stream* stream = resolve(handle);
  if (!stream || !flags) return call.done(cudaErrorInvalidResourceHandle);
  *flags = stream->rule == StreamRule::kNonBlocking ? cudaStreamNonBlocking : cudaStreamDefault;
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* id) {
  GWSIM_SILENT_CALL(cudaStreamGetId);
  Stream* stream = resolve(handle);
  if (!stream || !id) return call.done(cudaErrorInvalidResourceHandle);
  *id = stream->id;
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  GWSIM_SILENT_CALL(cudaStreamGetDevice);
  Stream* stream = resolve(handle);
  if (!stream || !device) return call.done(cudaErrorInvalidResourceHandle);
  *device = static_cast<int>(stream->device);
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  GWSIM_SILENT_CALL(cudaDeviceGetStreamPriorityRange);
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaStreamAttachMemAsync(cudaStream_t handle, void*, size_t, unsigned) {
  GWSIM_CALL(cudaStreamAttachMemAsync);
  return call.done(resolve(handle) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

GWSIM_EXPORT cudaError_t cudaDeviceSynchronize() {
  GWSIM_CALL(cudaDeviceSynchronize);
  call.waited(wait_for_device());
  report_sync(SyncKind::kContext, nullptr, 0, call, now_ns());
  return call.done();
}
