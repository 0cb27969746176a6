// SPDX-License-Identifier: Apache-2.0
// Interposes the CUPTI calls of another profiler in the process: each call first makes our session release
// CUPTI, then goes through unchanged, and its effect is noted, to know when we may use CUPTI again. Two
// arguments are replaced, because CUPTI calls them back: the tool's buffer callbacks by ours, which pass
// each buffer to its owner, and the tool's subscriber function by one that calls it. The tool gets CUPTI's
// own result.
#include <cupti.h>

#include "cuda/cupti/api.h"
#include "cuda/cupti/delivery.h"
#include "cuda/cupti/other_tools.h"
#include "libinject/base/compiler.h"
#include "libinject/runtime/real_function.h"

using namespace gpuwatch;
using namespace gpuwatch::cuda::cupti;

namespace {

template <class Function>
using Real = runtime::RealFunction<Function*>;

// What a call returns if the real function is not found: the caller looked the name up in the global scope,
// where only ours is.
constexpr CUptiResult kAbsent = CUPTI_ERROR_NOT_INITIALIZED;

void nothing() noexcept {}

uint32_t version(const void* caller) noexcept {
  static constinit Real<CUptiResult(uint32_t*)> real("cuptiGetVersion");
  uint32_t number = 0;
  auto* function = real.get(caller, nullptr);
  return function && function(&number) == CUPTI_SUCCESS ? number : 0;
}

// CUpti_SubscriberParams begins with its size, the subscriber's name follows; older headers do not have it.
struct SubscriberParameters {
  size_t bytes;
  const char* name;
};
#if CUPTI_API_VERSION >= 130000
static_assert(offsetof(CUpti_SubscriberParams, subscriberName) == offsetof(SubscriberParameters, name));
#endif

const char* name_in(const void* parameters) noexcept {
  return parameters ? static_cast<const SubscriberParameters*>(parameters)->name : nullptr;
}

// `subscribe(callback, user_data)` calls the real function.
template <class Subscribe>
CUptiResult subscribe_for(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback, void* user_data,
                          bool may_be_shared, Subscribe subscribe) noexcept {
  void* const forwarded = may_be_shared ? other_tools::forwarded(callback, user_data) : nullptr;
  const CUptiResult result =
      forwarded ? subscribe(other_tools::forwarder(), forwarded) : subscribe(callback, user_data);
  if (result == CUPTI_SUCCESS && handle) other_tools::subscribed(*handle, forwarded != nullptr);
  return result;
}

}  // namespace

extern "C" GW_EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback,
                                                void* user_data) {
  static constinit Real<decltype(cuptiSubscribe)> real("cuptiSubscribe");
  auto* function = real.get(GW_CALLER, reinterpret_cast<const void*>(&cuptiSubscribe));
  if (!function) return kAbsent;
  const other_tools::Visit visit(GW_CALLER);
  if (!visit.is_watched()) return function(handle, callback, user_data);
  return subscribe_for(handle, callback, user_data, true, [=](CUpti_CallbackFunc to, void* with) noexcept {
    return function(handle, to, with);
  });
}

// The C++ name differs, so that the header's declaration does not clash; the assembler name is the API's.
// (A parameter of a type in an unnamed namespace would make the function local, and no call would reach it.)
using SubscribeV2 = CUptiResult(CUpti_SubscriberHandle*, CUpti_CallbackFunc, void*, void*);
GW_EXPORT CUptiResult gw_cuptiSubscribe_v2(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback,
                                           void* user_data, void* parameters) __asm__("cuptiSubscribe_v2");
GW_EXPORT CUptiResult gw_cuptiSubscribe_v2(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback,
                                           void* user_data, void* parameters) {
  static constinit Real<SubscribeV2> real("cuptiSubscribe_v2");
  auto* function = real.get(GW_CALLER, reinterpret_cast<const void*>(&gw_cuptiSubscribe_v2));
  if (!function) return kAbsent;
  const other_tools::Visit visit(GW_CALLER, other_tools::Needs::kCupti, name_in(parameters));
  if (!visit.is_watched()) return function(handle, callback, user_data, parameters);
  // From 13.2 on such a subscriber uses functions that are not watched here: all is its own until it leaves.
  const bool may_be_shared = version(GW_CALLER) < kCupti13_2;
  return subscribe_for(
      handle, callback, user_data, may_be_shared,
      [=](CUpti_CallbackFunc to, void* with) noexcept { return function(handle, to, with, parameters); });
}

extern "C" GW_EXPORT CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                                                CUpti_BuffersCallbackCompleteFunc complete) {
  static constinit Real<decltype(cuptiActivityRegisterCallbacks)> real("cuptiActivityRegisterCallbacks");
  auto* function = real.get(GW_CALLER, reinterpret_cast<const void*>(&cuptiActivityRegisterCallbacks));
  if (!function) return kAbsent;
  const other_tools::Visit visit(GW_CALLER);
  if (!visit.is_watched() || !request || !complete) return function(request, complete);
  const CUptiResult result = function(on_buffer_request, on_buffer_complete);
  if (result == CUPTI_SUCCESS) other_tools::buffers_registered({request, complete});
  return result;
}

namespace {
using other_tools::all_domains_switched;
using other_tools::api_record_switched;
using other_tools::callback_switched;
using other_tools::clock_registered;
using other_tools::domain_switched;
using other_tools::finalized;
using other_tools::flushed;
using other_tools::kind_switched;
using other_tools::unsubscribed;
}  // namespace

#define GW_UNPACK(...) __VA_ARGS__
#define GW_CUPTI_OWN(name)
#define GW_CUPTI_CALL(name, needs, params, args, note)                          \
  extern "C" GW_EXPORT CUptiResult name params;                                 \
  extern "C" GW_EXPORT CUptiResult name params {                                \
    static constinit Real<CUptiResult params> real(#name);                      \
    auto* function = real.get(GW_CALLER, reinterpret_cast<const void*>(&name)); \
    if (!function) return kAbsent;                                              \
    const other_tools::Visit visit(GW_CALLER, other_tools::Needs::needs);       \
    const CUptiResult result = function args;                                   \
    if (visit.is_watched() && result == CUPTI_SUCCESS) note;                    \
    return result;                                                              \
  }
#include "hooks/cupti/interposed.def"
