// SPDX-License-Identifier: Apache-2.0
// Streams and events.
#include "driver.h"

using namespace gpuwatch::sim;

namespace {

CUresult create_stream(CUstream* out, unsigned flags, int priority) {
  if (!out || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING))) return CUDA_ERROR_INVALID_VALUE;
  const StreamRule rule = flags & CU_STREAM_NON_BLOCKING ? StreamRule::kNonBlocking : StreamRule::kBlocking;
  *out = reinterpret_cast<CUstream>(Timeline::instance().create_stream(current_device(), rule, priority));
  return CUDA_SUCCESS;
}

CUresult record_event(CUevent event, CUstream handle) {
  Stream* stream = resolve(handle);
  if (!stream || !event) return CUDA_ERROR_INVALID_HANDLE;
  resolve(event)->record(*stream);
  return CUDA_SUCCESS;
}

}  // namespace

GWSIM_EXPORT CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  GWSIM_CALL(cuStreamCreate);
  return call.done(create_stream(stream, flags, 0));
}
GWSIM_EXPORT CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  GWSIM_CALL(cuStreamCreateWithPriority);
  return call.done(create_stream(stream, flags, priority));
}
GWSIM_EXPORT CUresult cuStreamDestroy_v2(CUstream handle) {
  GWSIM_CALL(cuStreamDestroy_v2);
  Stream* stream = handle ? resolve(handle) : nullptr;
  if (!stream) return call.done(CUDA_ERROR_INVALID_HANDLE);
  Timeline::instance().destroy_stream(stream);
  return call.done();
}
GWSIM_EXPORT CUresult cuStreamSynchronize(CUstream handle) {
  GWSIM_CALL(cuStreamSynchronize);
  Stream* stream = resolve(handle);
  if (!stream) return call.done(CUDA_ERROR_INVALID_HANDLE);
  call.waited(Timeline::instance().wait_host(Timeline::instance().record(*stream)));
  report_sync(SyncKind::kStream, stream, 0, call, now_ns());
  return call.done();
}
GWSIM_EXPORT CUresult cuStreamQuery(CUstream handle) {
  GWSIM_SILENT_CALL(cuStreamQuery);
  Stream* stream = resolve(handle);
  if (!stream) return call.done(CUDA_ERROR_INVALID_HANDLE);
  const bool idle = Timeline::passed(*Timeline::instance().record(*stream));
  return call.done(idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}
GWSIM_EXPORT CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned) {
  GWSIM_CALL(cuStreamWaitEvent);
  Stream* stream = resolve(handle);
  if (!stream || !event) return call.done(CUDA_ERROR_INVALID_HANDLE);
  if (!resolve(event)->make_wait(*stream)) return call.done(CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  report_sync(SyncKind::kStreamWaitEvent, stream, resolve(event)->id, call, now_ns());
  return call.done();
}
GWSIM_EXPORT CUresult cuStreamGetFlags(CUstream handle, unsigned* flags) {
  GWSIM_SILENT_CALL(cuStreamGetFlags);
  Stream* stream = resolve(handle);
  if (!stream || !flags) return call.done(CUDA_ERROR_INVALID_HANDLE);
  *flags = stream->rule == StreamRule::kNonBlocking ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
  return call.done();
}
GWSIM_EXPORT CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  GWSIM_SILENT_CALL(cuStreamIsCapturing);
  Stream* stream = resolve(handle);
  if (!stream || !status) return call.done(CUDA_ERROR_INVALID_HANDLE);
  *status = is_capturing(*stream) ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return call.done();
}

GWSIM_EXPORT CUresult cuEventCreate(CUevent* event, unsigned flags) {
  GWSIM_CALL(cuEventCreate);
  if (!event) return call.done(CUDA_ERROR_INVALID_VALUE);
  *event = reinterpret_cast<CUevent>(new Event(!(flags & CU_EVENT_DISABLE_TIMING)));
  return call.done();
}
GWSIM_EXPORT CUresult cuEventDestroy_v2(CUevent event) {
  GWSIM_CALL(cuEventDestroy_v2);
  if (!event) return call.done(CUDA_ERROR_INVALID_HANDLE);
  delete resolve(event);
  return call.done();
}
GWSIM_EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
  GWSIM_CALL(cuEventRecord);
  return call.done(record_event(event, stream));
}
GWSIM_EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned) {
  GWSIM_CALL(cuEventRecordWithFlags);
  return call.done(record_event(event, stream));
}
GWSIM_EXPORT CUresult cuEventQuery(CUevent event) {
  GWSIM_SILENT_CALL(cuEventQuery);
  if (!event) return call.done(CUDA_ERROR_INVALID_HANDLE);
  return call.done(resolve(event)->has_passed() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}
GWSIM_EXPORT CUresult cuEventSynchronize(CUevent event) {
  GWSIM_CALL(cuEventSynchronize);
  if (!event) return call.done(CUDA_ERROR_INVALID_HANDLE);
  if (const MarkerRef marker = resolve(event)->marker()) call.waited(Timeline::instance().wait_host(marker));
  report_sync(SyncKind::kEvent, nullptr, resolve(event)->id, call, now_ns());
  return call.done();
}
#undef cuEventElapsedTime
static CUresult elapsed(float* ms, CUevent start, CUevent end) {
  switch (elapsed_ms(resolve(start), resolve(end), ms)) {
    case Elapsed::kKnown:
      return CUDA_SUCCESS;
    case Elapsed::kNotReady:
      return CUDA_ERROR_NOT_READY;
    case Elapsed::kInvalid:
      break;
  }
  return CUDA_ERROR_INVALID_HANDLE;
}
GWSIM_EXPORT CUresult cuEventElapsedTime(float* ms, CUevent start, CUevent end) {
  GWSIM_CALL(cuEventElapsedTime);
  return call.done(elapsed(ms, start, end));
}
GWSIM_EXPORT CUresult cuEventElapsedTime_v2(float* ms, CUevent start, CUevent end) {
  GWSIM_CALL(cuEventElapsedTime_v2);
  return call.done(elapsed(ms, start, end));
}
