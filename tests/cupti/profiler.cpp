// SPDX-License-Identifier: Apache-2.0
#include "profiler.h"

#include <cuda_runtime_api.h>
#include <cupti.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {

constexpr size_t kBufferBytes = 4 << 20;

FILE* out() {
  static FILE* file = [] {
    const char* path = std::getenv("OTHER_PROFILER_OUT");
    FILE* opened = path ? std::fopen(path, "w") : nullptr;
    if (!opened) std::_Exit(4);
    return opened;
  }();
  return file;
}

std::string g_way;
std::mutex g_mutex;
std::map<uint8_t*, size_t> g_allocated, g_ready;  // buffer -> valid bytes
CUpti_SubscriberHandle g_subscriber = nullptr;
std::atomic<bool> g_tear_down{false};

void check(CUptiResult result, const char* call) {
  if (result != CUPTI_SUCCESS) std::fprintf(out(), "error %d %s\n", result, call);
}
#define CHECK(call) check(call, #call)

void CUPTIAPI request(uint8_t** buffer, size_t* bytes, size_t* max_records) {
  std::lock_guard lock(g_mutex);
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *bytes = kBufferBytes;
  *max_records = 0;
  g_allocated[*buffer] = 0;
}

void CUPTIAPI complete(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid_bytes) {
  std::lock_guard lock(g_mutex);
  if (!g_allocated.erase(buffer)) {
    std::fprintf(out(), "error unknown buffer\n");
    return;
  }
  g_ready[buffer] = valid_bytes;
}

void write_record(const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto* r = reinterpret_cast<const CUpti_ActivityKernel5*>(record);
      std::fprintf(out(), "kernel %u %u %lu %lu %s %d\n", r->correlationId, r->streamId, r->start, r->end,
                   r->name, r->gridX);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto* r = reinterpret_cast<const CUpti_ActivityMemcpy4*>(record);
      std::fprintf(out(), "copy %u %u %lu %lu %lu %d\n", r->correlationId, r->streamId, r->start, r->end,
                   r->bytes, r->copyKind);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto* r = reinterpret_cast<const CUpti_ActivityMemset3*>(record);
      std::fprintf(out(), "memset %u %u %lu %lu %lu\n", r->correlationId, r->streamId, r->start, r->end,
                   r->bytes);
      break;
    }
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER: {
      const auto* r = reinterpret_cast<const CUpti_ActivityAPI*>(record);
      std::fprintf(out(), "api %u %d %u %u\n", r->correlationId, r->kind, r->cbid, r->returnValue);
      break;
    }
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: {
      const auto* r = reinterpret_cast<const CUpti_ActivitySynchronization*>(record);
      std::fprintf(out(), "sync %u %d\n", r->correlationId, r->type);
      break;
    }
    default:
      std::fprintf(out(), "other %d\n", record->kind);
  }
}

void write_ready() {
  std::lock_guard lock(g_mutex);
  for (const auto& [buffer, valid_bytes] : g_ready) {
    CUpti_Activity* record = nullptr;
    while (cuptiActivityGetNextRecord(buffer, valid_bytes, &record) == CUPTI_SUCCESS) write_record(record);
    std::free(buffer);
  }
  g_ready.clear();
  size_t dropped = 0;
  CHECK(cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped));
  std::fprintf(out(), "dropped %zu\n", dropped);
}

void write_settings() {
  for (int number : {5, 9}) {
    uint8_t value = 0xff;
    size_t bytes = 1;
    const CUptiResult result =
        cuptiActivityGetAttribute(static_cast<CUpti_ActivityAttribute>(number), &bytes, &value);
    std::fprintf(out(), "attribute %d %d %d\n", number, result, value);
  }
}

constexpr CUpti_ActivityKind kKinds[] = {
    CUPTI_ACTIVITY_KIND_MEMCPY,  CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
    CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
};

uint64_t CUPTIAPI counter() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 7'000'000'000 +
         3 * (static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec));
}

void CUPTIAPI on_call(void* user, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* bytes) {
  if (user != &g_way) std::fprintf(out(), "error user data\n");
  const auto* data = static_cast<const CUpti_CallbackData*>(bytes);
  if (g_way == "callbacks") {
    std::lock_guard lock(g_mutex);
    std::fprintf(out(), "call %d %u %d %s\n", domain, id, data->callbackSite, data->functionName);
  }
  if (data->callbackSite == CUPTI_API_EXIT && g_tear_down.exchange(false)) {
    CHECK(cuptiUnsubscribe(g_subscriber));
    CHECK(cuptiFinalize());
    g_subscriber = nullptr;
  }
}

void subscribe() {
  if (g_way == "callbacks") {
    CUpti_SubscriberParams params{};
    char holder[64] = "";
    params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
    params.subscriberName = "call counter";
    params.oldSubscriberName = holder;
    params.oldSubscriberSize = sizeof holder;
    CHECK(cuptiSubscribe_v2(&g_subscriber, on_call, &g_way, &params));
    if (*holder) std::fprintf(out(), "error held by %s\n", holder);
  } else {
    CHECK(cuptiSubscribe(&g_subscriber, on_call, &g_way));
    CHECK(
        cuptiEnableCallback(1, g_subscriber, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_CREATED));
  }
}

}  // namespace

void other_profiler_start(const char* way) {
  g_way = way;
  if (!g_subscriber && g_way != "kineto-bare") subscribe();
  if (g_way == "callbacks") {
    CHECK(cuptiEnableDomain(1, g_subscriber, CUPTI_CB_DOMAIN_RUNTIME_API));
    return;
  }
  write_settings();
  if (g_way == "kineto-bare") CHECK(cuptiActivityRegisterTimestampCallback(counter));
  CHECK(cuptiActivityRegisterCallbacks(request, complete));
  for (CUpti_ActivityKind kind : kKinds) CHECK(cuptiActivityEnable(kind));
}

void other_profiler_stop() {
  if (g_way == "callbacks") {
    CHECK(cuptiUnsubscribe(g_subscriber));
    g_subscriber = nullptr;
    std::fflush(out());
    return;
  }
  for (CUpti_ActivityKind kind : kKinds) CHECK(cuptiActivityDisable(kind));
  CHECK(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
  write_ready();
  if (g_way == "teardown") {
    CHECK(cuptiEnableDomain(1, g_subscriber, CUPTI_CB_DOMAIN_RUNTIME_API));
    g_tear_down = true;
    cudaDeviceSynchronize();
  }
  std::fflush(out());
}

// Preloaded, it profiles the whole of a program that knows nothing of it.
namespace {
__attribute__((constructor)) void start_with_the_process() {
  if (const char* way = std::getenv("OTHER_PROFILER_WHOLE_RUN")) other_profiler_start(way);
}
__attribute__((destructor)) void stop_with_the_process() {
  if (std::getenv("OTHER_PROFILER_WHOLE_RUN")) other_profiler_stop();
}
}  // namespace
