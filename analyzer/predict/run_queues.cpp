// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/run_queues.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace gpuwatch::predict {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kNoCore = 0.05;   // less of one more core than this is error of measurement
constexpr double kComputes = 0.5;  // of its time
constexpr double kNow = 1;         // ns; ticks are multiples that rounding may miss

// How fast a thread advances when CPU work runs at `speed` (1: undisturbed). What is not CPU work is not
// slowed.
double rate(double cpu_share, double speed) {
  return 1 / (cpu_share / speed + 1 - cpu_share);
}

double use(double cpu_share, double speed) {
  return cpu_share > 1 ? cpu_share * speed : cpu_share * rate(cpu_share, speed);
}

// The common speed of CPU work at which all threads together use no more than `cores`.
double common_speed(const std::vector<double>& shares, double cores) {
  double demand = 0;
  for (double share : shares) demand += share;
  if (demand <= cores) return 1;
  double low = 0, high = 1;
  for (int i = 0; i < 24; ++i) {
    double middle = (low + high) / 2, used = 0;
    for (double share : shares) used += use(share, middle);
    (used > cores ? high : low) = middle;
  }
  return std::max(low, 1e-3);
}

bool is_sleeper(const Thread& thread) {
  return thread.comes_first || thread.cpu_share < kComputes;
}

}  // namespace

RunQueues::RunQueues(double cores, size_t most_threads, const Scheduling& scheduling, double company_loss)
    : cores_(cores), scheduling_(scheduling), company_loss_(company_loss), looks_left_(scheduling.looks) {
  queues_.resize(
      size_t(std::clamp(std::ceil(cores - kNoCore), 1.0, double(std::max<size_t>(most_threads, 1)))));
}

double RunQueues::tick_after(double now_ns) const {
  return (std::floor((now_ns + kNow) / scheduling_.tick_ns) + 1) * scheduling_.tick_ns;
}

double RunQueues::rate_of(const Thread& thread, double speed) const {
  return thread.cpu_share > 1 ? std::pow(speed, scheduling_.spinning_power) : rate(thread.cpu_share, speed);
}

// Threads that hardly compute, each on the core where it is, are in nobody's way.
void RunQueues::fill(const std::vector<Thread*>& running) {
  for (std::vector<Thread*>& queue : queues_) queue.clear();
  for (Thread* thread : running)
    if (thread->cpu_share >= kComputes) queues_[thread->core].push_back(thread);
}

void RunQueues::wake(Thread& thread, const std::vector<Thread*>& running) {
  fill(running);
  if (thread.cpu_share < kComputes || queues_[thread.core].empty()) return;
  for (size_t core = 0; core < queues_.size(); ++core) {
    if (!queues_[core].empty()) continue;
    thread.core = core;
    return;
  }
}

bool RunQueues::is_crowded_beside_idle() const {
  bool is_crowded = false, is_idle = false;
  for (const std::vector<Thread*>& queue : queues_) {
    is_crowded |= queue.size() > 1;
    is_idle |= queue.empty();
  }
  return is_crowded && is_idle;
}

// Of the threads on a core the one that waits is moved, which is each of them in turn, tick by tick.
void RunQueues::balance(double now_ns) {
  const size_t turn = size_t((now_ns + kNow) / scheduling_.tick_ns);
  for (size_t core = 0; core < queues_.size(); ++core) {
    if (!queues_[core].empty()) continue;
    auto crowded = std::max_element(queues_.begin(), queues_.end(),
                                    [](const auto& a, const auto& b) { return a.size() < b.size(); });
    if (crowded->size() < 2) return;
    auto moved = crowded->begin() + std::ptrdiff_t(turn % crowded->size());
    (*moved)->core = core;
    queues_[core].push_back(*moved);
    crowded->erase(moved);
  }
}

void RunQueues::share(const std::vector<Thread*>& running, double now_ns) {
  fill(running);
  // So far from zero that times round, no tick follows another: the one that was waited for is one all the
  // same.
  const double awaited_ns = std::exchange(next_change_ns_, kNever);
  const bool is_awaited = awaited_ns > 0 && now_ns >= awaited_ns;
  const double tick = tick_after(now_ns);
  const bool is_tick = tick_after(now_ns - 2 * kNow) < tick;
  if (!is_crowded_beside_idle()) {
    looks_left_ = scheduling_.looks;
  } else {
    if (is_awaited || (is_tick && tick != looked_at_)) {
      --looks_left_;
      looked_at_ = tick;
    }
    if (looks_left_ <= 0) {
      balance(now_ns);
      looks_left_ = scheduling_.looks;
    } else {
      next_change_ns_ = tick;
    }
  }
  set_rates(running);
  if (company_loss_ > 0) slow_by_company(running);
}

// By what others compute meanwhile, up to one core: a thread that shares its core with them refills its
// caches as often as one beside them shares them.
void RunQueues::slow_by_company(const std::vector<Thread*>& running) const {
  double demand = 0;
  for (const Thread* thread : running) demand += std::min(thread->cpu_share, 1.0);
  for (Thread* thread : running) {
    const double own = std::min(thread->cpu_share, 1.0);
    thread->rate /= 1 + company_loss_ * own * std::clamp(demand - own, 0.0, 1.0);
  }
}

// Of the threads on one core, those that mostly sleep or the others. Returns the part of the core that they
// use.
double RunQueues::set_rates_of(const std::vector<Thread*>& running, size_t core, bool sleepers,
                               double capacity) {
  std::vector<Thread*> meant;
  shares_.clear();
  for (Thread* thread : running) {
    if (thread->core != core || is_sleeper(*thread) != sleepers) continue;
    meant.push_back(thread);
    shares_.push_back(thread->cpu_share);
  }
  const double speed = common_speed(shares_, capacity);
  double used = 0;
  for (Thread* thread : meant) {
    thread->rate = rate_of(*thread, speed);
    used += use(thread->cpu_share, speed);
  }
  return used;
}

// Each core shared by those on it, all cores by what can be had of them together.
void RunQueues::set_rates(const std::vector<Thread*>& running) {
  shares_.clear();
  for (const Thread* thread : running) shares_.push_back(thread->cpu_share);
  used_ = 0;
  if (std::any_of(shares_.begin(), shares_.end(), [](double share) { return share > 1; })) {
    const double speed = common_speed(shares_, cores_);
    for (Thread* thread : running) {
      thread->rate = rate_of(*thread, speed);
      used_ += use(thread->cpu_share, speed);
    }
    return;
  }
  for (size_t core = 0; core < queues_.size(); ++core) {
    const double first = set_rates_of(running, core, true, 1);
    used_ += first + set_rates_of(running, core, false, 1 - first);
  }
  if (used_ <= cores_) return;
  for (Thread* thread : running) thread->rate *= cores_ / used_;
  used_ = cores_;
}

}  // namespace gpuwatch::predict
