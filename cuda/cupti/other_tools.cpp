// SPDX-License-Identifier: Apache-2.0
#include "cuda/cupti/other_tools.h"

#include <dlfcn.h>

#include <atomic>
#include <cstring>

#include "cuda/cupti/callbacks.h"
#include "cuda/cupti/session.h"
#include "libinject/base/clock.h"
#include "libinject/base/errno_guard.h"
#include "libinject/base/syscall.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/config.h"

namespace gpuwatch::cuda::cupti {

constinit base::FutexLock g_use;

namespace other_tools {
namespace {

constexpr uint64_t kNsPerS = 1'000'000'000;
// A profiler that goes through its phases calls CUPTI every few milliseconds. One that has disabled its kinds
// and holds no buffer may still fetch what the device has (kineto does so only where it was given a buffer).
constexpr uint64_t kQuietNs = kNsPerS, kUnfetchedQuietNs = 10 * kNsPerS;

constexpr size_t kKinds = 128, kCallbackIds = 2048;
using CallbackBits = uint64_t[kCallbackIds / 64];

struct State {
  unsigned calls_in_flight = 0;
  uint64_t last_call_ns = 0;
  CUpti_SubscriberHandle subscriber = nullptr;
  bool may_be_shared = false;
  uint64_t kinds[kKinds / 64] = {};
  bool has_unfetched = false;                                  // disabled a kind and did not flush since
  CallbackBits runtime_callbacks = {}, driver_callbacks = {};  // that it has on
  CUpti_TimestampCallbackFunc clock = nullptr;
  char holder[56] = "another profiler";
};
constinit State g_state;

constinit std::atomic<CUpti_BuffersCallbackRequestFunc> g_request{nullptr};
constinit std::atomic<CUpti_BuffersCallbackCompleteFunc> g_complete{nullptr};
constinit std::atomic<int> g_buffers_out{0};

// One for each subscription that was made through us. Never freed: CUPTI may still be in a callback.
struct Forwarded {
  CUpti_CallbackFunc callback;
  void* user_data;
};
constexpr unsigned kForwarded = 64;
constinit Forwarded g_forwarded[kForwarded]{};
constinit std::atomic<unsigned> g_forwarded_count{0};
constinit std::atomic<bool> g_is_shared{false};

bool is_api(CUpti_CallbackDomain domain) noexcept {
  return domain == CUPTI_CB_DOMAIN_RUNTIME_API || domain == CUPTI_CB_DOMAIN_DRIVER_API;
}

void CUPTIAPI forward(void* to, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) {
  if (is_api(domain) && g_is_shared.load(std::memory_order_acquire))
    return on_api_call(nullptr, domain, id, data);
  const auto* other = static_cast<const Forwarded*>(to);
  other->callback(other->user_data, domain, id, data);
}

struct KnownTool {
  const char* library;  // how its file name begins
  const char* name;
};
constexpr KnownTool kKnownTools[] = {
    {"libtorch", "torch.profiler"},
    {"libkineto", "torch.profiler"},
    {"libtensorflow", "TensorFlow's profiler"},
    {"_pywrap_profiler", "TensorFlow's profiler"},
    {"libproton", "Proton"},
    {"libnvToolsExt", "NVTX"},
};

void note_holder(const void* caller, const char* name) noexcept {
  Dl_info where{};
  if (!name || !*name) {
    if (!dladdr || !dladdr(caller, &where) || !where.dli_fname) return;
    const char* slash = std::strrchr(where.dli_fname, '/');
    name = slash ? slash + 1 : where.dli_fname;
    for (const KnownTool& tool : kKnownTools) {
      if (std::strncmp(name, tool.library, std::strlen(tool.library)) == 0) name = tool.name;
    }
  }
  size_t bytes = std::strlen(name);
  if (bytes > sizeof g_state.holder - 1) bytes = sizeof g_state.holder - 1;
  std::memcpy(g_state.holder, name, bytes);
  g_state.holder[bytes] = 0;
}

template <size_t kWords>
bool any(const uint64_t (&words)[kWords]) noexcept {
  uint64_t all = 0;
  for (const uint64_t word : words) all |= word;
  return all != 0;
}

uint64_t* callbacks_of(CUpti_CallbackDomain domain) noexcept {
  if (!is_api(domain)) return nullptr;  // the others' do not matter to us
  return domain == CUPTI_CB_DOMAIN_RUNTIME_API ? g_state.runtime_callbacks : g_state.driver_callbacks;
}

void switch_all(CUpti_CallbackDomain domain, bool on) noexcept {
  uint64_t* const words = callbacks_of(domain);
  if (words) std::memset(words, on ? 0xff : 0, sizeof(CallbackBits));
}

class Guard {
 public:
  Guard() noexcept : guard_(g_use, static_cast<uint32_t>(base::sys_getpid())) {}

 private:
  base::FutexGuard guard_;
};

}  // namespace

bool enter(const void* caller, Needs needs, const char* name) noexcept {
  const bool is_watched =
      runtime::config().is_on(runtime::Source::kCupti) && !runtime::config().disabled && may_touch_cupti();
  if (!is_watched) return false;
  const base::ErrnoGuard keep_errno;
  const record::Quiet quiet;
  const Guard guard;
  if (needs == Needs::kCupti) {
    note_holder(caller, name);
    yield_session(g_state.holder);
  }
  ++g_state.calls_in_flight;
  return true;
}

void leave() noexcept {
  if (!may_touch_cupti()) return;  // forked between the two, as may happen within a whole profile
  const base::ErrnoGuard keep_errno;
  const Guard guard;
  --g_state.calls_in_flight;
  g_state.last_call_ns = base::monotonic_ns();
}

void subscribed(CUpti_SubscriberHandle handle, bool may_be_shared) noexcept {
  const Guard guard;
  g_state.subscriber = handle;
  g_state.may_be_shared = may_be_shared;
}

void unsubscribed() noexcept {
  const Guard guard;
  g_state.subscriber = nullptr;
  switch_all(CUPTI_CB_DOMAIN_RUNTIME_API, false);
  switch_all(CUPTI_CB_DOMAIN_DRIVER_API, false);
}

void finalized() noexcept {
  unsubscribed();
  const Guard guard;
  std::memset(g_state.kinds, 0, sizeof g_state.kinds);
  g_state.has_unfetched = false;
  g_buffers_out.store(0, std::memory_order_release);
}

void kind_switched(CUpti_ActivityKind kind, bool on) noexcept {
  const auto index = static_cast<size_t>(kind);
  if (index >= kKinds) return;
  const Guard guard;
  const uint64_t bit = 1ull << (index % 64);
  uint64_t& word = g_state.kinds[index / 64];
  if (!on && (word & bit)) g_state.has_unfetched = true;
  word = on ? word | bit : word & ~bit;
}

void api_record_switched(bool on) noexcept {
  // Whether another one stays on is not kept count of: until the kind is disabled, it is in use.
  if (on) kind_switched(CUPTI_ACTIVITY_KIND_RUNTIME, true);
}

void callback_switched(CUpti_CallbackDomain domain, CUpti_CallbackId id, bool on) noexcept {
  const Guard guard;
  uint64_t* const words = callbacks_of(domain);
  if (!words || id >= kCallbackIds) return;
  const uint64_t bit = 1ull << (id % 64);
  words[id / 64] = on ? words[id / 64] | bit : words[id / 64] & ~bit;
}

void domain_switched(CUpti_CallbackDomain domain, bool on) noexcept {
  const Guard guard;
  switch_all(domain, on);
}

void all_domains_switched(bool on) noexcept {
  domain_switched(CUPTI_CB_DOMAIN_RUNTIME_API, on);
  domain_switched(CUPTI_CB_DOMAIN_DRIVER_API, on);
}

void flushed() noexcept {
  const Guard guard;
  g_state.has_unfetched = false;
}

void clock_registered(CUpti_TimestampCallbackFunc clock) noexcept {
  const Guard guard;
  g_state.clock = clock;
}

CUpti_CallbackFunc forwarder() noexcept {
  return forward;
}

void* forwarded(CUpti_CallbackFunc callback, void* user_data) noexcept {
  const unsigned index = g_forwarded_count.fetch_add(1, std::memory_order_relaxed);
  if (index >= kForwarded || !callback) return nullptr;
  g_forwarded[index] = {callback, user_data};
  return &g_forwarded[index];
}

void buffers_registered(const BufferCallbacks& callbacks) noexcept {
  g_complete.store(callbacks.complete, std::memory_order_release);
  g_request.store(callbacks.request, std::memory_order_release);
}

bool request_buffer(uint8_t** buffer, size_t* bytes, size_t* max_records) noexcept {
  const auto request = g_request.load(std::memory_order_acquire);
  if (!request) return false;
  *buffer = nullptr;
  request(buffer, bytes, max_records);
  if (*buffer) g_buffers_out.fetch_add(1, std::memory_order_acq_rel);
  return true;
}

void complete_buffer(CUcontext context, uint32_t stream, uint8_t* buffer, size_t bytes,
                     size_t valid_bytes) noexcept {
  const auto complete = g_complete.load(std::memory_order_acquire);
  if (!complete) return;
  complete(context, stream, buffer, bytes, valid_bytes);
  g_buffers_out.fetch_sub(1, std::memory_order_acq_rel);
}

bool are_busy(uint64_t now_ns) noexcept {
  const State& s = g_state;
  if (s.calls_in_flight || any(s.kinds) || g_buffers_out.load(std::memory_order_acquire) > 0) return true;
  if (s.subscriber && (!s.may_be_shared || any(s.runtime_callbacks) || any(s.driver_callbacks))) return true;
  return s.last_call_ns && now_ns - s.last_call_ns < (s.has_unfetched ? kUnfetchedQuietNs : kQuietNs);
}

const char* holder() noexcept {
  return g_state.holder;
}

CUpti_TimestampCallbackFunc clock() noexcept {
  return g_state.clock;
}

CUpti_SubscriberHandle idle_subscriber() noexcept {
  return g_state.subscriber;
}

void share_callbacks(bool on) noexcept {
  g_is_shared.store(on, std::memory_order_release);
}

}  // namespace other_tools
}  // namespace gpuwatch::cuda::cupti
