// SPDX-License-Identifier: Apache-2.0
// CUPTI's activity API: which records, into which buffers, when.
#include <cupti.h>

#include <cstdio>
#include <cstring>

#include "buffers.h"
#include "core/timeline.h"
#include "cupti_clock.h"
#include "session.h"

#define GWSIM_EXPORT extern "C" __attribute__((visibility("default")))

extern "C" int gwsim_unimplemented(const char* name, int code);

using namespace gpuwatch::sim;

namespace {

bool produced(CUpti_ActivityKind kind) {
  return record_size(kind) != 0;
}

CUptiResult unknown_kind(CUpti_ActivityKind kind) {
  char name[64];
  std::snprintf(name, sizeof name, "CUPTI activity kind %d", static_cast<int>(kind));
  return static_cast<CUptiResult>(gwsim_unimplemented(name, CUPTI_ERROR_INVALID_KIND));
}

}  // namespace

GWSIM_EXPORT CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                                        CUpti_BuffersCallbackCompleteFunc complete) {
  if (!request || !complete) return CUPTI_ERROR_INVALID_PARAMETER;
  set_buffer_callbacks(request, complete);  // a second client takes over without being told, as in reality
  return CUPTI_SUCCESS;
}

GWSIM_EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (!produced(kind)) return unknown_kind(kind);
  Session::instance().enable_kind(kind, true);
  return CUPTI_SUCCESS;
}
GWSIM_EXPORT CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  if (!produced(kind)) return CUPTI_ERROR_INVALID_KIND;
  Session::instance().enable_kind(kind, false);
  return CUPTI_SUCCESS;
}
GWSIM_EXPORT CUptiResult cuptiActivityEnableContext(CUcontext, CUpti_ActivityKind kind) {
  return cuptiActivityEnable(kind);
}
GWSIM_EXPORT CUptiResult cuptiActivityDisableContext(CUcontext, CUpti_ActivityKind kind) {
  return cuptiActivityDisable(kind);
}
GWSIM_EXPORT CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId cbid, uint8_t enable) {
  Session::instance().enable_api_record(ApiDomain::kRuntime, cbid, enable != 0);
  return CUPTI_SUCCESS;
}
GWSIM_EXPORT CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId cbid, uint8_t enable) {
  Session::instance().enable_api_record(ApiDomain::kDriver, cbid, enable != 0);
  return CUPTI_SUCCESS;
}

GWSIM_EXPORT CUptiResult cuptiActivityFlushAll(uint32_t flag) {
  if (!has_buffer_callbacks()) return CUPTI_ERROR_INVALID_OPERATION;
  flush_records((flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != 0);
  return CUPTI_SUCCESS;
}
GWSIM_EXPORT CUptiResult cuptiActivityFlush(CUcontext, uint32_t, uint32_t flag) {
  return cuptiActivityFlushAll(flag);
}
GWSIM_EXPORT CUptiResult cuptiActivityFlushPeriod(uint32_t period_ms) {
  set_flush_period_ms(period_ms);
  return CUPTI_SUCCESS;
}

GWSIM_EXPORT CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid_bytes,
                                                    CUpti_Activity** record) {
  if (!buffer || !record) return CUPTI_ERROR_INVALID_PARAMETER;
  size_t offset = 0;
  if (*record) {
    const size_t size = record_size((*record)->kind);
    if (size == 0) return CUPTI_ERROR_INVALID_KIND;
    offset = static_cast<size_t>(reinterpret_cast<uint8_t*>(*record) - buffer) + size;
  }
  if (offset >= valid_bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(buffer + offset);
  return record_size((*record)->kind) ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_KIND;
}

GWSIM_EXPORT CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  if (!dropped) return CUPTI_ERROR_INVALID_PARAMETER;
  *dropped = take_dropped_count();
  return CUPTI_SUCCESS;
}

// Attributes steer the real library's memory and cost; here they are remembered and given back.
namespace {
struct AttributeValue {
  size_t size_bytes = 0;
  uint8_t bytes[64] = {};
};
AttributeValue g_attributes[64];
std::mutex g_attributes_mutex;
}  // namespace

GWSIM_EXPORT CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t* size_bytes,
                                                   void* value) {
  if (!size_bytes || !value || static_cast<size_t>(attribute) >= 64 ||
      *size_bytes > sizeof AttributeValue{}.bytes) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  std::lock_guard lock(g_attributes_mutex);
  g_attributes[attribute].size_bytes = *size_bytes;
  std::memcpy(g_attributes[attribute].bytes, value, *size_bytes);
  return CUPTI_SUCCESS;
}
GWSIM_EXPORT CUptiResult cuptiActivityGetAttribute(CUpti_ActivityAttribute attribute, size_t* size_bytes,
                                                   void* value) {
  if (!size_bytes || !value || static_cast<size_t>(attribute) >= 64 ||
      *size_bytes > sizeof AttributeValue{}.bytes) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  std::lock_guard lock(g_attributes_mutex);
  std::memcpy(value, g_attributes[attribute].bytes, *size_bytes);
  return CUPTI_SUCCESS;
}

GWSIM_EXPORT CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock) {
  use_client_clock(clock);
  return CUPTI_SUCCESS;
}
GWSIM_EXPORT CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type) {
  Session::instance().use_system_thread_ids(type == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
  return CUPTI_SUCCESS;
}
GWSIM_EXPORT CUptiResult cuptiGetThreadIdType(CUpti_ActivityThreadIdType* type) {
  if (!type) return CUPTI_ERROR_INVALID_PARAMETER;
  *type = Session::instance().uses_system_thread_ids() ? CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM
                                                       : CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT;
  return CUPTI_SUCCESS;
}

GWSIM_EXPORT CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                                uint64_t id) {
  Session::instance().push_external(kind, id);
  return CUPTI_SUCCESS;
}
GWSIM_EXPORT CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                               uint64_t* last_id) {
  return Session::instance().pop_external(kind, last_id) ? CUPTI_SUCCESS : CUPTI_ERROR_QUEUE_EMPTY;
}

// Accepted: the stand-in's records do not depend on them.
GWSIM_EXPORT CUptiResult cuptiActivityEnableLatencyTimestamps(uint8_t) {
  return CUPTI_SUCCESS;
}
GWSIM_EXPORT CUptiResult cuptiActivityEnableLaunchAttributes(uint8_t) {
  return CUPTI_SUCCESS;
}
GWSIM_EXPORT CUptiResult cuptiActivityEnableAllSyncRecords(uint8_t) {
  return CUPTI_SUCCESS;
}
GWSIM_EXPORT CUptiResult cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t) {
  return CUPTI_SUCCESS;
}

GWSIM_EXPORT CUptiResult cuptiGetLastError() {
  return CUPTI_SUCCESS;
}
GWSIM_EXPORT CUptiResult cuptiGetStreamIdEx(CUcontext, CUstream stream, uint8_t, uint32_t* id) {
  if (!id) return CUPTI_ERROR_INVALID_PARAMETER;
  const auto* known = reinterpret_cast<const Stream*>(stream);
  if (!stream) {
    *id = 7;
  } else if (Timeline::instance().is_stream(known)) {
    *id = known->id;
  } else {
    return CUPTI_ERROR_INVALID_STREAM;
  }
  return CUPTI_SUCCESS;
}
GWSIM_EXPORT CUptiResult cuptiGetStreamId(CUcontext context, CUstream stream, uint32_t* id) {
  return cuptiGetStreamIdEx(context, stream, 0, id);
}
