// SPDX-License-Identifier: Apache-2.0
#include "cuda/cupti/session.h"

#include <cstring>

#include "cuda/cupti/api.h"
#include "cuda/cupti/buffers.h"
#include "cuda/cupti/decode.h"
#include "cuda/cupti/flusher.h"
#include "libinject/base/text.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/fork_epoch.h"

namespace gpuwatch::cuda::cupti {
namespace {

using State = base::Text<160>;

constinit Api g_api;
constinit CUpti_SubscriberHandle g_subscriber = nullptr;
constinit uint32_t g_epoch = 0;

// Never KIND_KERNEL: it makes kernels run one after the other. RUNTIME and DRIVER records would say what the
// callbacks say already. GRAPH_TRACE replaces the records of a graph's nodes by one for the whole run.
constexpr CUpti_ActivityKind kKinds[] = {
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
    CUPTI_ACTIVITY_KIND_MEMCPY2,           CUPTI_ACTIVITY_KIND_MEMSET,
    CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,   CUPTI_ACTIVITY_KIND_GRAPH_TRACE,
    CUPTI_ACTIVITY_KIND_OVERHEAD,
};

// Attribute numbers; headers before 12.3 do not name the second.
constexpr auto kBuffersComeZeroed = static_cast<CUpti_ActivityAttribute>(5);
constexpr auto kBufferForEachThread = static_cast<CUpti_ActivityAttribute>(9);
constexpr uint32_t kCupti12_3 = 21;

void CUPTIAPI on_buffer_request(uint8_t** buffer, size_t* bytes, size_t* max_records) {
  *buffer = runtime::epoch() == g_epoch ? take_buffer() : nullptr;
  *bytes = *buffer ? kBufferBytes : 0;
  *max_records = 0;  // as many as fit
}

void CUPTIAPI on_buffer_complete(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid_bytes) {
  if (runtime::epoch() != g_epoch || !buffer) return;
  if (valid_bytes) decode(g_api, buffer, valid_bytes);
  give_back_buffer(buffer);
}

// From 13.2 on the _v2 functions are another way of using CUPTI, and who took that way first locks the others
// out; everybody else in the process uses the first way.
CUptiResult subscribe(char* holder, size_t holder_bytes) noexcept {
#if CUPTI_API_VERSION >= 130000
  if (g_api.cuptiSubscribe_v2 && g_api.version >= kCupti13_0 && g_api.version < kCupti13_2) {
    CUpti_SubscriberParams params{};
    params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
    params.subscriberName = "gpuwatch";
    params.oldSubscriberName = holder;
    params.oldSubscriberSize = holder_bytes;
    return g_api.cuptiSubscribe_v2(&g_subscriber, on_api_call, nullptr, &params);
  }
#else
  (void)holder, (void)holder_bytes;
#endif
  return g_api.cuptiSubscribe(&g_subscriber, on_api_call, nullptr);
}

constexpr char kHolderPrefix[] = "CUPTI for ";

// Why there is no session, for people.
void explain_refusal(CUptiResult result, const char* holder, State* state) noexcept {
  switch (static_cast<int>(result)) {
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      // CUPTI writes "CUPTI for <name>".
      if (std::strncmp(holder, kHolderPrefix, sizeof kHolderPrefix - 1) == 0)
        holder += sizeof kHolderPrefix - 1;
      state->add("held by ").add(*holder ? holder : "another profiler");
      break;
    case CUPTI_ERROR_NOT_INITIALIZED:
    case CUPTI_ERROR_UNKNOWN:  // what CUPTI says on a machine without a driver
      state->add("no GPU here");
      break;
    default:
      state->add("refused by CUPTI, error ").add(static_cast<uint64_t>(result));
  }
}

bool set_attribute(CUpti_ActivityAttribute attribute, uint8_t value) noexcept {
  size_t bytes = sizeof value;
  return g_api.cuptiActivitySetAttribute(attribute, &bytes, &value) == CUPTI_SUCCESS;
}

bool set_buffers_up() noexcept {
  // By default each thread fills a buffer of its own from CUPTI 13 on: a megabyte for every four threads.
  if (g_api.version >= kCupti12_3) set_attribute(kBufferForEachThread, 0);
  const bool must_be_zero = set_attribute(kBuffersComeZeroed, 1);
  return make_buffers(g_api.version >= kCupti12_9, must_be_zero) &&
         g_api.cuptiActivityRegisterCallbacks(on_buffer_request, on_buffer_complete) == CUPTI_SUCCESS;
}

bool enable_kinds() noexcept {
  for (CUpti_ActivityKind kind : kKinds) {
    if (kind == CUPTI_ACTIVITY_KIND_OVERHEAD && g_api.version < kCupti12_4) continue;
    const CUptiResult result = g_api.cuptiActivityEnable(kind);
    if (result != CUPTI_SUCCESS && kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) return false;
  }
  return true;
}

// "13.0 (API 130001)" would need a table for the releases before 13; the number is what the vendor documents.
void note_version() noexcept {
  base::Text<32> text;
  record::put_fact("cupti", text.add(uint64_t{g_api.version}).c_str());
}

// Recording ended before the job did: give the device and the callbacks their full speed back.
void stop_session() noexcept {
  for (CUpti_ActivityKind kind : kKinds) g_api.cuptiActivityDisable(kind);
  g_api.cuptiEnableDomain(0, g_subscriber, CUPTI_CB_DOMAIN_RUNTIME_API);
  g_api.cuptiEnableDomain(0, g_subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
}

bool try_to_start(FindOperation find, State* state) noexcept {
  if (!load_api(&g_api)) {
    state->add(g_api.missing).add(" not found");
    return false;
  }
  char holder[128] = "";
  // Without a driver, releases up to 13.0 know at least their version; 13.5 not even that.
  CUptiResult result = g_api.cuptiGetVersion(&g_api.version);
  if (result == CUPTI_SUCCESS) result = subscribe(holder, sizeof holder);
  if (result != CUPTI_SUCCESS) {
    explain_refusal(result, holder, state);
    return false;
  }
  g_epoch = runtime::epoch();
  prepare_flusher(&g_api, stop_session);
  on_first_device_work(start_flusher);
  // Callbacks first: correlation ids exist only while somebody listens.
  if (!enable_callbacks(g_api, g_subscriber, find) || !set_buffers_up() || !enable_kinds()) {
    stop_session();
    g_api.cuptiUnsubscribe(g_subscriber);
    state->add("CUPTI refuses to trace kernels");
    return false;
  }
  note_version();
  sample_device_clock();
  state->add("on");
  return true;
}

}  // namespace

void start_session(FindOperation find) noexcept {
  State state;
  try_to_start(find, &state);
  record::put_source("cupti", state.c_str());
}

void finish_session(uint32_t limit_ms) noexcept {
  finish_flusher(limit_ms);
}

}  // namespace gpuwatch::cuda::cupti
