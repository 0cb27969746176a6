// SPDX-License-Identifier: Apache-2.0
#include "api_call.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "truth_log.h"

namespace gpuwatch::sim {

namespace {

std::atomic<Observer*> g_observer{nullptr};
std::atomic<uint32_t> g_next_correlation{1};
thread_local uint32_t t_correlation = 0;
thread_local const ApiInfo* t_reported_as = nullptr;

uint32_t thread_id() {
  thread_local const uint32_t t_id = static_cast<uint32_t>(syscall(SYS_gettid));
  return t_id;
}

}  // namespace

void set_observer(Observer* observer) {
  g_observer.store(observer, std::memory_order_release);
}
Observer* current_observer() {
  return g_observer.load(std::memory_order_acquire);
}

ApiCall::ApiCall(const ApiInfo& info, Truth truth, const char* symbol)
    : observer_(current_observer()), outer_correlation_(t_correlation), entered_ns_(now_ns()), truth_(truth) {
  const ApiInfo& reported = t_reported_as ? *t_reported_as : info;
  event_ = ApiEvent{reported.domain, reported.cbid, reported.name, symbol, 0, thread_id(), 0, 0, 0, 0};
  event_.correlation = t_correlation = g_next_correlation.fetch_add(1, std::memory_order_relaxed);
  if (observer_) observer_->on_api_enter(event_);
  event_.begin_ns = observer_ ? now_ns() : entered_ns_;
}

ApiCall::~ApiCall() {
  event_.end_ns = now_ns();
  if (observer_) observer_->on_api_exit(event_);
  t_correlation = outer_correlation_;
  if (truth_ == Truth::kLogged && truth_enabled()) {
    truth_host(event_.name, event_.correlation, entered_ns_, until_ns_ > entered_ns_ ? until_ns_ : 0);
  }
}

uint32_t ApiCall::current_correlation() {
  return t_correlation;
}

PerThreadDefault::PerThreadDefault(const ApiInfo& reported_as) : outer_(t_reported_as) {
  t_reported_as = &reported_as;
}
PerThreadDefault::~PerThreadDefault() {
  t_reported_as = outer_;
}
bool PerThreadDefault::active() {
  return t_reported_as != nullptr;
}

}  // namespace gpuwatch::sim
