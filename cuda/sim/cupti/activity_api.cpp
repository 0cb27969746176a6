// SPDX-License-Identifier: Apache-2.0
// CUPTI's activity API: which records, into which buffers, when.
#include <cupti.h>

#include <cstdio>
#include <cstring>

#include "buffers.h"
#include "core/timeline.h"
#include "cupti_clock.h"
#include "failure.h"
#include "record_layout.h"
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
  GWSIM_MAY_FAIL();
  if (!request || !complete) return CUPTI_ERROR_INVALID_PARAMETER;
  set_buffer_callbacks(request, complete);  // a second client takes over without being told, as in reality
  return CUPTI_SUCCESS;
}

GWSIM_EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  GWSIM_MAY_FAIL();
  if (!produced(kind)) return unknown_kind(kind);
  Session::instance().enable_kind(kind, true);
  return CUPTI_SUCCESS;
}
GWSIM_EXPORT CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  GWSIM_MAY_FAIL();
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
  GWSIM_MAY_FAIL();
  if (cupti_version() < kCupti12_5) return CUPTI_ERROR_NOT_SUPPORTED;  // it did not exist
  Session::instance().enable_api_record(ApiDomain::kRuntime, cbid, enable != 0);
  return CUPTI_SUCCESS;
}
GWSIM_EXPORT CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId cbid, uint8_t enable) {
  GWSIM_MAY_FAIL();
  if (cupti_version() < kCupti12_5) return CUPTI_ERROR_NOT_SUPPORTED;  // it did not exist
  Session::instance().enable_api_record(ApiDomain::kDriver, cbid, enable != 0);
  return CUPTI_SUCCESS;
}

GWSIM_EXPORT CUptiResult cuptiActivityFlushAll(uint32_t flag) {
  GWSIM_MAY_FAIL();
  if (!has_buffer_callbacks()) return CUPTI_ERROR_INVALID_OPERATION;
  flush_records((flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != 0);
  return CUPTI_SUCCESS;
}
GWSIM_EXPORT CUptiResult cuptiActivityFlush(CUcontext, uint32_t, uint32_t flag) {
  return cuptiActivityFlushAll(flag);
}
GWSIM_EXPORT CUptiResult cuptiActivityFlushPeriod(uint32_t period_ms) {
  GWSIM_MAY_FAIL();
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

// Attributes steer the real library's memory and cost; here they are remembered and given back, and two
// work: the promise of zeroed buffers, which is held against what comes, and whose buffers threads share.
namespace {

constexpr auto kThreadBuffers = CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER;

struct AttributeValue {
  size_t size_bytes = 0;
  uint8_t bytes[64] = {};
};
std::mutex g_attributes_mutex;

AttributeValue* attributes() {
  static AttributeValue* const values = [] {
    auto* made = new AttributeValue[64];
    for (int i = 0; i < 64; ++i) made[i].size_bytes = sizeof(size_t);
    made[CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER].size_bytes = 1;
    made[kThreadBuffers].size_bytes = 1;
    made[kThreadBuffers].bytes[0] = cupti_version() >= kCupti13_0;
    return made;
  }();
  return values;
}

bool is_attribute(CUpti_ActivityAttribute attribute, const size_t* size_bytes, const void* value) {
  if (attribute == kThreadBuffers && cupti_version() < kCupti12_3) return false;
  return size_bytes && value && static_cast<size_t>(attribute) < 64 &&
         *size_bytes == attributes()[attribute].size_bytes;
}

}  // namespace

GWSIM_EXPORT CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t* size_bytes,
                                                   void* value) {
  GWSIM_MAY_FAIL();
  if (!is_attribute(attribute, size_bytes, value)) return CUPTI_ERROR_INVALID_PARAMETER;
  std::lock_guard lock(g_attributes_mutex);
  std::memcpy(attributes()[attribute].bytes, value, *size_bytes);
  if (attribute == CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER)
    expect_zeroed_buffers(attributes()[attribute].bytes[0]);
  if (attribute == kThreadBuffers) use_thread_buffers(attributes()[attribute].bytes[0]);
  return CUPTI_SUCCESS;
}
GWSIM_EXPORT CUptiResult cuptiActivityGetAttribute(CUpti_ActivityAttribute attribute, size_t* size_bytes,
                                                   void* value) {
  GWSIM_MAY_FAIL();
  if (!is_attribute(attribute, size_bytes, value)) return CUPTI_ERROR_INVALID_PARAMETER;
  std::lock_guard lock(g_attributes_mutex);
  std::memcpy(value, attributes()[attribute].bytes, *size_bytes);
  return CUPTI_SUCCESS;
}

GWSIM_EXPORT CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock) {
  GWSIM_MAY_FAIL();
  if (!clock) return CUPTI_ERROR_INVALID_PARAMETER;
  use_client_clock(clock);
  return CUPTI_SUCCESS;
}
GWSIM_EXPORT CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type) {
  GWSIM_MAY_FAIL();
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
