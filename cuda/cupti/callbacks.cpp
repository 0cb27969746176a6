// SPDX-License-Identifier: Apache-2.0
#include "cuda/cupti/callbacks.h"

#include <atomic>

#include "cuda/cupti/correlation.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/fork_epoch.h"
#include "libinject/trace/layout.h"

namespace gpuwatch::cuda {

GW_TLS uint32_t t_correlation = 0;
GW_TLS uint32_t t_in_symbol_hook = 0;

}  // namespace gpuwatch::cuda

namespace gpuwatch::cuda::cupti {
namespace {

constexpr uint32_t kMaxCallbackIds = 2048;  // CUPTI 13 has 780 in the driver's domain, 523 in the runtime's

// By callback id. Written before the callbacks are switched on.
constinit ApiOperation g_runtime_operations[kMaxCallbackIds];
constinit ApiOperation g_driver_operations[kMaxCallbackIds];
constinit std::atomic<OnDeviceWork> g_on_device_work{nullptr};
constinit uint32_t g_epoch = 0;
constinit std::atomic<bool> g_calls_count{false};

// The call of this thread that is being recorded from its callbacks.
struct OpenCall {
  record::Scope scope;
  uintptr_t frame = 0;  // of the entry callback
  uint32_t correlation = 0;
  CUpti_CallbackDomain domain = CUPTI_CB_DOMAIN_INVALID;
};
GW_TLS OpenCall t_open;

ApiOperation* operations_of(CUpti_CallbackDomain domain) noexcept {
  return domain == CUPTI_CB_DOMAIN_RUNTIME_API ? g_runtime_operations : g_driver_operations;
}

void enter(CUpti_CallbackDomain domain, const ApiOperation& operation,
           const CUpti_CallbackData& data) noexcept {
  if (t_in_symbol_hook) {
    // The outermost callback comes first; driver calls inside would overwrite it.
    if (t_correlation == 0) t_correlation = data.correlationId;
    return;
  }
  // Stacks grow downwards: an open call whose frame lies above ours is a caller of this one. One that lies
  // below is gone without its exit callback (an exception, longjmp).
  const auto frame = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  if (t_open.scope && t_open.frame > frame) return;
  t_open.scope = record::enter(operation.op);
  t_open.frame = frame;
  t_open.correlation = data.correlationId;
  t_open.domain = domain;
}

void leave(CUpti_CallbackDomain domain, const CUpti_CallbackData& data) noexcept {
  if (!t_open.scope || t_open.domain != domain || t_open.correlation != data.correlationId) return;
  // cudaSuccess and CUDA_SUCCESS are both 0.
  const auto* result = static_cast<const uint32_t*>(data.functionReturnValue);
  record::leave(t_open.scope, result && *result ? trace::kFailed : 0, data.correlationId, 0);
  t_open.scope = {};
}

void notice_device_work() noexcept {
  const OnDeviceWork notify = g_on_device_work.load(std::memory_order_acquire);
  if (GW_UNLIKELY(notify != nullptr) && notify()) g_on_device_work.store(nullptr, std::memory_order_release);
}

unsigned enable_domain(const Api& api, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain,
                       FindOperation find) noexcept {
  unsigned enabled = 0;
  ApiOperation* operations = operations_of(domain);
  for (CUpti_CallbackId id = 1; id < kMaxCallbackIds; ++id) {
    const char* name = nullptr;
    if (api.cuptiGetCallbackName(domain, id, &name) != CUPTI_SUCCESS || !name) break;
    operations[id] = find(name);
    if (operations[id].op) enabled += api.cuptiEnableCallback(1, subscriber, domain, id) == CUPTI_SUCCESS;
  }
  return enabled;
}

}  // namespace

void CUPTIAPI on_api_call(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  if (GW_UNLIKELY(runtime::epoch() != g_epoch || id >= kMaxCallbackIds)) return;
  const auto& call = *static_cast<const CUpti_CallbackData*>(data);
  const ApiOperation& operation = operations_of(domain)[id];
  if (call.callbackSite == CUPTI_API_ENTER) {
    if (g_calls_count.load(std::memory_order_acquire)) enter(domain, operation, call);
  } else {
    leave(domain, call);
    if (trace::enqueues(operation.op_class)) notice_device_work();
  }
}

void count_calls(bool on) noexcept {
  g_calls_count.store(on, std::memory_order_release);
}

void on_first_device_work(OnDeviceWork function) noexcept {
  g_on_device_work.store(function, std::memory_order_release);
}

unsigned enable_callbacks(const Api& api, CUpti_SubscriberHandle subscriber, FindOperation find) noexcept {
  g_epoch = runtime::epoch();
  return enable_domain(api, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API, find) +
         enable_domain(api, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, find);
}

}  // namespace gpuwatch::cuda::cupti
