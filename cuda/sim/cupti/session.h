// SPDX-License-Identifier: Apache-2.0
// State of the CUPTI stand-in: the one subscriber, what it asked for, and the observer that feeds it.
// Flags are atomics because every API call reads them; the rest is guarded by the session's lock.
#pragma once

#include <cupti.h>

#include <array>
#include <atomic>
#include <mutex>
#include <string>

#include "core/observer.h"

namespace gpuwatch::sim {

inline constexpr size_t kMaxCallbackId = 1024;
inline constexpr size_t kMaxActivityKind = 128;

class Session final : public Observer {
 public:
  static Session& instance();

  void on_api_enter(ApiEvent& event) override;
  void on_api_exit(ApiEvent& event) override;
  void on_op(const Op& op) override;
  void on_sync(const SyncEvent& event) override;
  void on_queue_full(uint32_t correlation, Ns begin_ns, Ns end_ns) override;

  // CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED while there is one.
  CUptiResult subscribe(CUpti_CallbackFunc callback, void* user_data, const char* name,
                        CUpti_SubscriberHandle* out);
  CUptiResult unsubscribe(CUpti_SubscriberHandle handle);
  bool is_subscriber(CUpti_SubscriberHandle handle);
  std::string subscriber_name();

  void enable_callback(CUpti_CallbackDomain domain, uint32_t cbid, bool on);
  bool callback_enabled(CUpti_CallbackDomain domain, uint32_t cbid) const;
  void enable_domain(CUpti_CallbackDomain domain, bool on);

  void enable_kind(CUpti_ActivityKind kind, bool on);
  bool kind_enabled(CUpti_ActivityKind kind) const { return kinds_[kind].load(std::memory_order_relaxed); }
  void enable_api_record(ApiDomain domain, uint32_t cbid, bool on);

  void use_system_thread_ids(bool on) { system_thread_ids_ = on; }
  bool uses_system_thread_ids() const { return system_thread_ids_; }

  void push_external(CUpti_ExternalCorrelationKind kind, uint64_t id);
  bool pop_external(CUpti_ExternalCorrelationKind kind, uint64_t* id);

  void reset();

 private:
  using IdFlags = std::array<std::atomic<bool>, kMaxCallbackId>;

  Session();
  void call_subscriber(ApiEvent& event, CUpti_ApiCallbackSite site);
  // Correlation ids are only given out while something records or is told of API calls.
  uint32_t visible(uint32_t correlation) const { return ids_wanted_ ? correlation : 0; }
  void update_ids_wanted();
  void put_api_record(const ApiEvent& event);
  void put_external_records(const ApiEvent& event);

  std::mutex mutex_;
  std::atomic<CUpti_CallbackFunc> callback_{nullptr};
  void* user_data_ = nullptr;
  std::string name_;
  bool subscribed_ = false;

  std::array<std::atomic<bool>, kMaxActivityKind> kinds_{};
  IdFlags runtime_callbacks_{};
  IdFlags driver_callbacks_{};
  IdFlags runtime_records_{};
  IdFlags driver_records_{};
  std::atomic<bool> ids_wanted_{false};
  std::atomic<bool> system_thread_ids_{false};
};

}  // namespace gpuwatch::sim
