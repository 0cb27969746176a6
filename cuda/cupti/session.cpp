// SPDX-License-Identifier: Apache-2.0
#include "cuda/cupti/session.h"

#include <cstring>

#include "cuda/cupti/api.h"
#include "cuda/cupti/delivery.h"
#include "cuda/cupti/flusher.h"
#include "cuda/cupti/names.h"
#include "cuda/cupti/other_tools.h"
#include "cuda/cupti/settings.h"
#include "libinject/base/clock.h"
#include "libinject/base/futex_lock.h"
#include "libinject/base/syscall.h"
#include "libinject/base/text.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/fork_epoch.h"

namespace gpuwatch::cuda::cupti {
namespace {

using trace::SourceState;

// What put_source() will be told.
struct Status {
  SourceState state = SourceState::Unavailable;
  base::Text<160> text;  // empty: what the state says of itself
  base::Text<96> holder;

  void put() const noexcept {
    record::put_source(
        "cupti", {state, text.size() ? text.c_str() : nullptr, holder.size() ? holder.c_str() : nullptr});
  }
};
constexpr char kNoTimeline[] = ": no device timeline";

enum class Phase : uint8_t {
  kNone,
  kActive,
  kAway,   // another tool has CUPTI, or had it lately
  kEnded,  // for good
};

constinit Api g_api;
constinit FindOperation g_find = nullptr;
constinit Phase g_phase = Phase::kNone;
constinit CUpti_SubscriberHandle g_subscriber = nullptr;
constinit bool g_is_shared = false;  // the subscription is another tool's
constinit uint32_t g_epoch = 0;
constinit unsigned g_failed_fetches = 0;

// A tool that was not seen coming may hold CUPTI for the whole run: few tries, further and further apart.
constexpr unsigned kTries = 10;
constexpr uint64_t kFirstRetryNs = 1'000'000'000;
constinit unsigned g_tries = 0;
constinit uint64_t g_next_try_ns = 0;

constexpr unsigned kFailuresToEnd = 3;  // CUPTI that cannot flush three times in a row will not recover

CUptiResult subscribe(char* holder, size_t holder_bytes) noexcept {
  g_is_shared = other_tools::idle_subscriber() != nullptr;
  if (g_is_shared) {
    g_subscriber = other_tools::idle_subscriber();
    other_tools::share_callbacks(true);
    return CUPTI_SUCCESS;
  }
#if CUPTI_API_VERSION >= 130000
  // From 13.2 on the _v2 functions are another way of using CUPTI, and who took that way first locks the
  // others out; everybody else in the process uses the first way.
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

// Why there is no session, for people. True: it may become possible later.
bool explain_refusal(CUptiResult result, const char* holder, Status* status) noexcept {
  switch (static_cast<int>(result)) {
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      // CUPTI writes "CUPTI for <name>".
      if (std::strncmp(holder, kHolderPrefix, sizeof kHolderPrefix - 1) == 0)
        holder += sizeof kHolderPrefix - 1;
      status->state = SourceState::Held;
      status->holder.add(*holder ? holder : "another profiler");
      return true;
    case CUPTI_ERROR_NOT_INITIALIZED:
    case CUPTI_ERROR_UNKNOWN:  // what CUPTI says on a machine without a driver
      status->state = SourceState::Absent;
      status->text.add("no GPU found").add(kNoTimeline);
      return false;
    default:
      status->state = SourceState::Unavailable;
      status->text.add("refused by CUPTI (error ")
          .add(static_cast<uint64_t>(result))
          .add(")")
          .add(kNoTimeline);
      return false;
  }
}

void count_dropped() noexcept {
  size_t dropped = 0;
  if (g_api.cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped) == CUPTI_SUCCESS && dropped) {
    record::lose("device records that CUPTI had no buffer for", dropped);
  }
}

// Everything that we changed, back: the next one to use CUPTI finds it as if we had not been there.
void leave_cupti() noexcept {
  count_calls(false);
  withdraw(g_api, g_subscriber);
  g_api.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  count_dropped();
  deliver_to_us(false);
  put_back(g_api, other_tools::clock());
  other_tools::share_callbacks(false);
  if (!g_is_shared) g_api.cuptiUnsubscribe(g_subscriber);
  g_subscriber = nullptr;
}

// Under g_use. False, with the reason in `status`: no session; g_phase says whether later.
bool try_to_start(Status* status) noexcept {
  char holder[128] = "";
  const CUptiResult result = subscribe(holder, sizeof holder);
  if (result != CUPTI_SUCCESS) {
    g_phase = explain_refusal(result, holder, status) ? Phase::kAway : Phase::kEnded;
    return false;
  }
  on_first_device_work(start_flusher);
  deliver_to_us(true);
  // Callbacks first: correlation ids exist only while somebody listens.
  if (!enable_callbacks(g_api, g_subscriber, g_find) || !set_up(g_api, other_tools::clock() != nullptr)) {
    leave_cupti();
    g_phase = Phase::kEnded;
    status->state = SourceState::Unavailable;
    status->text.add("CUPTI refuses to trace kernels").add(kNoTimeline);
    return false;
  }
  count_calls(true);
  g_phase = Phase::kActive;
  g_failed_fetches = 0;
  sample_device_clock();
  status->state = SourceState::On;
  return true;
}

void back_off(uint64_t now_ns) noexcept {
  g_next_try_ns = now_ns + (kFirstRetryNs << g_tries);
  if (++g_tries >= kTries) g_phase = Phase::kEnded;
}

void return_to_cupti(uint64_t now_ns) noexcept {
  Status status;
  if (try_to_start(&status)) {
    g_tries = 0;
    status.put();
  } else {
    if (g_phase == Phase::kEnded) status.put();
    back_off(now_ns);
  }
}

void end_by_failure(CUptiResult result) noexcept {
  leave_cupti();
  g_phase = Phase::kEnded;
  Status status;
  status.state = SourceState::Failed;
  status.text.add("failed while recording (CUPTI error ").add(static_cast<uint64_t>(result)).add(")");
  status.text.add(": no device timeline from then on");
  status.put();
}

void fetch(uint32_t flag) noexcept {
  const CUptiResult result = g_api.cuptiActivityFlushAll(flag);
  sample_device_clock();
  count_dropped();
  g_failed_fetches = result == CUPTI_SUCCESS ? 0 : g_failed_fetches + 1;
  if (g_failed_fetches >= kFailuresToEnd) end_by_failure(result);
}

// "13.0 (API 130001)" would need a table for the releases before 13; the number is what the vendor documents.
void note_version() noexcept {
  base::Text<32> text;
  record::put_fact("cupti", text.add(uint64_t{g_api.version}).c_str());
}

bool load(Status* status) noexcept {
  if (!load_api(&g_api)) {
    status->state = SourceState::Absent;
    status->text.add(g_api.missing)
        .add(" not found")
        .add(kNoTimeline)
        .add("; install the CUDA toolkit's CUPTI");
    return false;
  }
  // Without a driver, releases up to 13.0 know at least their version; 13.5 not even that.
  const CUptiResult result = g_api.cuptiGetVersion(&g_api.version);
  if (result != CUPTI_SUCCESS) explain_refusal(result, "", status);
  return result == CUPTI_SUCCESS;
}

uint32_t own_pid() noexcept {
  return static_cast<uint32_t>(base::sys_getpid());
}

}  // namespace

void start_session(FindOperation find) noexcept {
  Status status;
  if (load(&status)) {
    const base::FutexGuard guard(g_use, own_pid());
    g_find = find;
    g_epoch = runtime::epoch();
    prepare_delivery(&g_api);
    prepare_flusher(&g_api);
    if (other_tools::are_busy(base::monotonic_ns())) {
      g_phase = Phase::kAway;
      status.state = SourceState::Held;
      status.holder.add(other_tools::holder());
    } else {
      try_to_start(&status);
    }
    if (g_phase == Phase::kActive) note_version();
  } else {
    g_phase = Phase::kEnded;
  }
  status.put();
  if (g_phase == Phase::kAway) start_waiting();
}

void tend_session() noexcept {
  const uint64_t now_ns = base::monotonic_ns();
  const base::FutexGuard guard(g_use, own_pid());
  if (g_phase == Phase::kActive) {
    fetch(0);
    // Asks the driver, which another tool's records would show: not while we are away.
    if (g_phase == Phase::kActive) describe_new_devices();
  } else if (g_phase == Phase::kAway && now_ns >= g_next_try_ns && !other_tools::are_busy(now_ns)) {
    return_to_cupti(now_ns);
  }
}

void end_session(bool is_recording) noexcept {
  const base::FutexGuard guard(g_use, own_pid());
  if (g_phase != Phase::kActive) return;
  if (is_recording) {
    fetch(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    if (g_phase == Phase::kActive) describe_new_devices();
  } else {
    leave_cupti();
    g_phase = Phase::kEnded;
  }
}

void yield_session(const char* holder) noexcept {
  g_tries = 0;  // the tool is seen, so its end will be
  g_next_try_ns = 0;
  if (g_phase != Phase::kActive) return;
  sample_device_clock();
  leave_cupti();
  g_phase = Phase::kAway;
  record::put_source("cupti", {SourceState::Yielded, nullptr, holder});
}

bool may_touch_cupti() noexcept {
  return !g_epoch || runtime::epoch() == g_epoch;
}

void finish_session(uint32_t limit_ms) noexcept {
  finish_flusher(limit_ms);
}

}  // namespace gpuwatch::cuda::cupti
