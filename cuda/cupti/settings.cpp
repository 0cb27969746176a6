// SPDX-License-Identifier: Apache-2.0
#include "cuda/cupti/settings.h"

#include "cuda/cupti/buffers.h"
#include "cuda/cupti/delivery.h"
#include "libinject/base/clock.h"

namespace gpuwatch::cuda::cupti {
namespace {

// Never KIND_KERNEL: it makes kernels run one after the other. RUNTIME and DRIVER records would say what the
// callbacks say already. GRAPH_TRACE replaces the records of a graph's nodes by one for the whole run. Nor
// SYNCHRONIZATION: on an H200 it made each launch 2 us longer, more than all other kinds together (1.3 us),
// and says only what the calls say.
constexpr CUpti_ActivityKind kKinds[] = {
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
    CUPTI_ACTIVITY_KIND_MEMCPY2,           CUPTI_ACTIVITY_KIND_MEMSET,
    CUPTI_ACTIVITY_KIND_GRAPH_TRACE,       CUPTI_ACTIVITY_KIND_OVERHEAD,
};

// A one-byte attribute that we change, and what it was.
struct Attribute {
  CUpti_ActivityAttribute number;
  bool is_changed = false;
  uint8_t before = 0;

  bool change(const Api& api, uint8_t value, uint8_t default_value) noexcept {
    size_t bytes = sizeof before;
    before = default_value;
    api.cuptiActivityGetAttribute(number, &bytes, &before);
    bytes = sizeof value;
    is_changed = api.cuptiActivitySetAttribute(number, &bytes, &value) == CUPTI_SUCCESS;
    return is_changed;
  }

  void put_back(const Api& api) noexcept {
    size_t bytes = sizeof before;
    if (is_changed) api.cuptiActivitySetAttribute(number, &bytes, &before);
    is_changed = false;
  }
};

// Attribute numbers; headers before 12.3 do not name the second.
constinit Attribute g_buffers_come_zeroed{static_cast<CUpti_ActivityAttribute>(5)};
constinit Attribute g_buffer_for_each_thread{static_cast<CUpti_ActivityAttribute>(9)};

uint64_t CUPTIAPI realtime_clock() {
  return base::realtime_ns();
}

bool set_buffers_up(const Api& api) noexcept {
  // By default each thread fills a buffer of its own from CUPTI 13 on: a megabyte for every four threads.
  if (api.version >= kCupti12_3) g_buffer_for_each_thread.change(api, 0, api.version >= kCupti13_0);
  const bool must_be_zero = g_buffers_come_zeroed.change(api, 1, 0);
  return make_buffers(api.version >= kCupti12_9, must_be_zero) && register_delivery(api);
}

bool enable_kinds(const Api& api) noexcept {
  for (CUpti_ActivityKind kind : kKinds) {
    if (kind == CUPTI_ACTIVITY_KIND_OVERHEAD && api.version < kCupti12_4) continue;
    const CUptiResult result = api.cuptiActivityEnable(kind);
    if (result != CUPTI_SUCCESS && kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) return false;
  }
  return true;
}

}  // namespace

bool set_up(const Api& api, bool own_clock) noexcept {
  if (own_clock && api.cuptiActivityRegisterTimestampCallback)
    api.cuptiActivityRegisterTimestampCallback(realtime_clock);
  return set_buffers_up(api) && enable_kinds(api);
}

void withdraw(const Api& api, CUpti_SubscriberHandle subscriber) noexcept {
  api.cuptiEnableDomain(0, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API);
  api.cuptiEnableDomain(0, subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
  for (CUpti_ActivityKind kind : kKinds) api.cuptiActivityDisable(kind);
}

void put_back(const Api& api, CUpti_TimestampCallbackFunc clock) noexcept {
  g_buffers_come_zeroed.put_back(api);
  g_buffer_for_each_thread.put_back(api);
  if (clock && api.cuptiActivityRegisterTimestampCallback) api.cuptiActivityRegisterTimestampCallback(clock);
}

}  // namespace gpuwatch::cuda::cupti
