// SPDX-License-Identifier: Apache-2.0
#include "core/event.h"

#include "runtime.h"

namespace gpuwatch::sim {

namespace {

cudaError_t create(RuntimeCall& call, cudaEvent_t* out, unsigned flags) {
  if (!out) return call.done(cudaErrorInvalidValue);
  *out = reinterpret_cast<cudaEvent_t>(new Event(!(flags & cudaEventDisableTiming)));
  return call.done();
}

cudaError_t record(RuntimeCall& call, cudaEvent_t handle, cudaStream_t stream_handle) {
  Stream* stream = resolve(stream_handle);
  Event* event = resolve(handle);
  if (!stream || !event) return call.done(cudaErrorInvalidResourceHandle);
  event->record(*stream);
  return call.done();
}

}  // namespace

}  // namespace gpuwatch::sim

using namespace gpuwatch::sim;

GWSIM_EXPORT cudaError_t cudaEventCreate(cudaEvent_t* event) {
  GWSIM_CALL(cudaEventCreate);
  return create(call, event, cudaEventDefault);
}
GWSIM_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  GWSIM_CALL(cudaEventCreateWithFlags);
  return create(call, event, flags);
}
GWSIM_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) {
  GWSIM_CALL(cudaEventDestroy);
  if (!event) return call.done(cudaErrorInvalidResourceHandle);
  delete resolve(event);
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  GWSIM_CALL(cudaEventRecord);
  return record(call, event, stream);
}
GWSIM_EXPORT cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  GWSIM_CALL(cudaEventRecordWithFlags);
  return record(call, event, stream);
}

GWSIM_EXPORT cudaError_t cudaEventQuery(cudaEvent_t handle) {
  GWSIM_SILENT_CALL(cudaEventQuery);
  Event* event = resolve(handle);
  if (!event) return call.done(cudaErrorInvalidResourceHandle);
  return call.done(event->has_passed() ? cudaSuccess : cudaErrorNotReady);
}

GWSIM_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  GWSIM_CALL(cudaEventSynchronize);
  Event* event = resolve(handle);
  if (!event) return call.done(cudaErrorInvalidResourceHandle);
  if (const MarkerRef marker = event->marker()) call.waited(Timeline::instance().wait_host(marker));
  report_sync(SyncKind::kEvent, nullptr, event->id, call, now_ns());
  return call.done();
}

GWSIM_EXPORT cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  GWSIM_CALL(cudaEventElapsedTime);
  switch (elapsed_ms(resolve(start), resolve(end), ms)) {
    case Elapsed::kKnown:
      return call.done();
    case Elapsed::kNotReady:
      return call.done(cudaErrorNotReady);
    case Elapsed::kInvalid:
      break;
  }
  return call.done(cudaErrorInvalidResourceHandle);
}
