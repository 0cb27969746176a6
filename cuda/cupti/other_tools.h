// SPDX-License-Identifier: Apache-2.0
// Other users of CUPTI in this process: torch.profiler, Proton, a tool of the job's own. CUPTI knows one
// subscriber and one pair of buffer callbacks, and enabled kinds and attributes are the process's. So
// before a call of another tool goes through, our session ends and CUPTI is put back as that tool left it;
// while the tool has anything switched on, or records of it are still in CUPTI, we stay away. This sees
// calls made through the symbol table. A tool with a CUPTI linked in statically, or that finds it by dlsym
// on a handle, finds the place taken (error 39), unless something else tells when it begins and ends.
// Thread safety: any, under one lock that is not held while the other tool's call runs. Errors: none. In a
// forked child: nothing is done.
//
// Seen in kineto: until August 2026 it subscribes once and never unsubscribes, so a subscriber that has no
// API callback on counts as idle and its subscription is used for our callbacks.
// Later it uses the activity API without subscribing. Either way it disables its kinds first and fetches its
// records afterwards: until then its buffers must not come to us.
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>

#include "libinject/base/futex_lock.h"

namespace gpuwatch::cuda::cupti {

// Guards who uses CUPTI: taken by a visit, by our session's start and end, and while we fetch.
extern constinit base::FutexLock g_use;

namespace other_tools {

// What a call of another tool needs of us.
enum class Needs : uint8_t {
  kCupti,    // CUPTI to itself
  kNothing,  // it changes nothing of ours
};

// Before and after what another tool does. `name` is what the tool calls itself; else the library of `caller`
// tells. False: gpuwatch has no business with CUPTI here, and no leave() is due.
bool enter(const void* caller, Needs needs, const char* name) noexcept;
void leave() noexcept;

// The same around one call.
class Visit {
 public:
  explicit Visit(const void* caller, Needs needs = Needs::kCupti, const char* name = nullptr) noexcept
      : is_watched_(enter(caller, needs, name)) {}
  ~Visit() noexcept {
    if (is_watched_) leave();
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  // False: hand everything through as it is.
  bool is_watched() const noexcept { return is_watched_; }

 private:
  bool is_watched_;
};

// What the other tool's call did, once it succeeded; within its visit.
void subscribed(CUpti_SubscriberHandle handle, bool may_be_shared) noexcept;
void unsubscribed() noexcept;
void finalized() noexcept;
void kind_switched(CUpti_ActivityKind kind, bool on) noexcept;
void api_record_switched(bool on) noexcept;
void callback_switched(CUpti_CallbackDomain domain, CUpti_CallbackId id, bool on) noexcept;
void domain_switched(CUpti_CallbackDomain domain, bool on) noexcept;
void all_domains_switched(bool on) noexcept;
void flushed() noexcept;
void clock_registered(CUpti_TimestampCallbackFunc clock) noexcept;

// The function and context to subscribe in place of the tool's own. Null: subscribe the tool's as they are,
// and do not share the subscription.
CUpti_CallbackFunc forwarder() noexcept;
void* forwarded(CUpti_CallbackFunc callback, void* user_data) noexcept;

// The tool's buffer callbacks; CUPTI is given ours, which ask the tool's whenever the session is not ours.
struct BufferCallbacks {
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
};
void buffers_registered(const BufferCallbacks& callbacks) noexcept;
bool request_buffer(uint8_t** buffer, size_t* bytes, size_t* max_records) noexcept;  // false: no other tool
void complete_buffer(CUcontext context, uint32_t stream, uint8_t* buffer, size_t bytes,
                     size_t valid_bytes) noexcept;

// --- for the session, under g_use --------------------------------------------------------------------------

bool are_busy(uint64_t now_ns) noexcept;
const char* holder() noexcept;  // who was seen last
CUpti_TimestampCallbackFunc clock() noexcept;
// The subscription of a tool that has no use for it now; null: subscribe ourselves.
CUpti_SubscriberHandle idle_subscriber() noexcept;
// Whether API callbacks of that subscription come to us.
void share_callbacks(bool on) noexcept;

}  // namespace other_tools
}  // namespace gpuwatch::cuda::cupti
