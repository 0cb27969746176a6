// SPDX-License-Identifier: Apache-2.0
// Events. An event's time is the simulated time at which its stream passed it: exact, without the host's
// noise.
#include <atomic>

#include "runtime.h"

namespace gpuwatch::sim {

namespace {

std::atomic<uint32_t> g_next_event_id{1};

cudaError_t create(RuntimeCall& call, cudaEvent_t* out, unsigned flags) {
  if (!out) return call.done(cudaErrorInvalidValue);
  auto* event = new Event;
  event->id = g_next_event_id.fetch_add(1);
  event->timing = !(flags & cudaEventDisableTiming);
  *out = reinterpret_cast<cudaEvent_t>(event);
  return call.done();
}

cudaError_t record(RuntimeCall& call, cudaEvent_t handle, cudaStream_t stream_handle) {
  Stream* stream = resolve(stream_handle);
  Event* event = resolve(handle);
  if (!stream || !event) return call.done(cudaErrorInvalidResourceHandle);
  CapturedPoint captured = captured_point(*stream);
  MarkerRef marker = captured.capture ? nullptr : Timeline::instance().record(*stream);
  std::lock_guard lock(event->mutex);
  event->marker = std::move(marker);
  event->captured = std::move(captured);
  return call.done();
}

MarkerRef marker_of(Event& event) {
  std::lock_guard lock(event.mutex);
  return event.marker;
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
  const MarkerRef marker = marker_of(*event);
  return call.done(!marker || Timeline::passed(*marker) ? cudaSuccess : cudaErrorNotReady);
}

GWSIM_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  GWSIM_CALL(cudaEventSynchronize);
  Event* event = resolve(handle);
  if (!event) return call.done(cudaErrorInvalidResourceHandle);
  if (const MarkerRef marker = marker_of(*event)) call.waited(Timeline::instance().wait_host(marker));
  report_sync(SyncKind::kEvent, nullptr, event->id, call, now_ns());
  return call.done();
}

GWSIM_EXPORT cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start_handle, cudaEvent_t end_handle) {
  GWSIM_CALL(cudaEventElapsedTime);
  Event* start = resolve(start_handle);
  Event* end = resolve(end_handle);
  if (!ms || !start || !end || !start->timing || !end->timing)
    return call.done(cudaErrorInvalidResourceHandle);
  const MarkerRef from = marker_of(*start);
  const MarkerRef to = marker_of(*end);
  if (!from || !to) return call.done(cudaErrorInvalidResourceHandle);
  if (!Timeline::passed(*from) || !Timeline::passed(*to)) return call.done(cudaErrorNotReady);
  *ms = static_cast<float>(static_cast<double>(to->at - from->at) / 1e6);
  return call.done();
}
