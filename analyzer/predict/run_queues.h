// SPDX-License-Identifier: Apache-2.0
// Threads that share cores as Linux lets them: each core has a queue of its own. A thread that wakes up goes to
// a core that is idle, else it queues where it ran last. Three threads on two cores are one alone and two that
// share, not three times two thirds; and when the one alone goes to sleep, its core stays idle until it looks
// into the other's queue. Nanoseconds; no state outside the object.
#pragma once

#include <cstddef>
#include <vector>

namespace gpuwatch::predict {

// What a kernel does at once and what it leaves to its timer, which interrupts each core every tick_ns. No
// trace shows it; where threads outnumber cores it decides several percent.
//
// Linux (kernel/sched/fair.c): a slice that is over is noticed by the timer, CONFIG_HZ times a second (250 is
// the default of kernel/Kconfig.hz, 1000 what some distributions set). A core that goes idle may look for
// queued threads at once, but does not where that was seldom worth it (sched_balance_newidle() compares the
// expected idle time with its cost; since 2025 it also tries only as often as it succeeded before): then the
// next timer interrupt of a core with a queue makes it look. A woken thread runs at once where what runs there
// has used up its slice, else after it.
struct Scheduling {
  double tick_ns = 4e6;
  bool is_idle_core_prompt = false;  // true: a core that runs dry takes over at once, false: at the next tick
  bool is_wake_up_prompt = true;     // false: on a busy core a woken thread waits for the next tick
};

struct Thread {
  double left_ns = 0;      // of what it does now
  double cpu_share = 0;    // cores asked for while it runs; above 1: parallel work, all of it on CPUs
  size_t core = 0;         // where it ran last
  double may_run_ns = 0;   // the moment of its first turn since it woke up
  double rate = 1;         // of left_ns: 1 undisturbed
  bool comes_first = false;  // it sleeps most of the time: it runs at once where it wakes up
  bool is_awake = false;   // on a core or in its queue
};

class RunQueues {
 public:
  // `cores` may be broken: what is left of them where others take a part.
  RunQueues(double cores, size_t most_threads, const Scheduling& scheduling);

  size_t count() const { return queues_.size(); }

  // Puts a thread that was asleep on a core. `running`: all others that are awake.
  void wake(Thread& thread, const std::vector<Thread*>& running, double now_ns);

  // Sets the rates of all threads that are awake, and moves one to a core that runs dry where it is time to.
  void share(const std::vector<Thread*>& running, double now_ns);

  // The next moment at which rates change though no thread wakes up or sleeps.
  double next_change_ns() const { return next_change_ns_; }

  double cores_used() const { return used_; }

 private:
  void fill(const std::vector<Thread*>& running);
  void end_waits(double now_ns);
  void balance(double now_ns);
  void set_rates(const std::vector<Thread*>& running, double now_ns);
  double set_rates_of(const std::vector<Thread*>& running, size_t core, bool comes_first, double capacity,
                      double now_ns);
  bool is_crowded_beside_idle() const;
  double tick_after(double now_ns) const;

  const double cores_;
  const Scheduling scheduling_;
  std::vector<std::vector<Thread*>> queues_;
  std::vector<double> shares_;
  double next_change_ns_ = 0, used_ = 0;
};

}  // namespace gpuwatch::predict
