// SPDX-License-Identifier: Apache-2.0
// Threads that share cores as Linux lets them: each core has a queue of its own. A thread that wakes up goes
// to a core that is idle, else it queues where it ran last. Three threads on two cores are one alone and two
// that share, not three times two thirds; and when the one alone goes to sleep, its core stays idle until it
// looks into the other's queue. Nanoseconds; no state outside the object.
#pragma once

#include <cstddef>
#include <vector>

namespace gpuwatch::predict {

// When a core that ran dry takes over a thread that waits on another: no trace shows it, and where threads
// outnumber cores it decides several percent of a step.
//
// Linux (kernel/sched/fair.c). A core that goes idle may look for waiting threads at once; it does not where
// that was seldom worth it (sched_balance_newidle() weighs the expected idle time against the cost; newer
// ones also try only as often as it succeeded before). Then the timer of a core with a queue makes it look
// (nohz_balancer_kick()), CONFIG_HZ times a second: 250 by default (kernel/Kconfig.hz). But that timer has
// just ended a slice, and what ran within sysctl_sched_migration_cost (0.5 ms) counts as hot in the cache and
// stays (task_hot()), until cache_nice_tries (1 within a last-level cache) looks and one more have failed: so
// it takes the first to the third look. 2 is the middle; the others stay possible. Of two jobs recorded with
// three computing processes on two cores, one in C code and one in Python, the replay misses their own steps
// by -3 and -11 % with looks = 0, by -4 and -8 % with 1, by -3 and 0 % with 2, by 2 and -2 % with 3.
struct Scheduling {
  double tick_ns = 4e6;
  int looks = 2;  // timer interrupts until it takes over; 0: at once
  // The threads of a parallel region wait for the slowest of them, spinning: beside others that compute, the
  // region advances with this power of the speed that equal shares would give it. Training on two cores took
  // 15 ms a step alone and 60 ms beside two workers: 2. The shorter its regions, the more of them meet a
  // thread that waits for the end of another's slice: 3 and 4.5 were seen beside one worker.
  double spinning_power = 2;
};

constexpr int kFewestLooks = 0, kMostLooks = 3;

struct Thread {
  double left_ns = 0;        // of what it does now
  double cpu_share = 0;      // cores asked for while it runs; above 1: parallel work, all of it on CPUs
  size_t core = 0;           // where it ran last
  double rate = 1;           // of left_ns: 1 undisturbed
  bool comes_first = false;  // it sleeps most of the time: it runs at once where it wakes up
  bool is_awake = false;     // on a core or in its queue
};

class RunQueues {
 public:
  // `cores` may be broken: what is left of them where others take a part.
  // `company_loss`: what computes takes so much longer while another core computes, too: both share the
  // last-level cache, the memory and the clock's head-room.
  RunQueues(double cores, size_t most_threads, const Scheduling& scheduling, double company_loss = 0);

  size_t count() const { return queues_.size(); }

  // Puts a thread that was asleep on a core. `running`: all others that are awake.
  void wake(Thread& thread, const std::vector<Thread*>& running);

  // Sets the rates of all threads that are awake, and moves one to a core that runs dry where it is time to.
  void share(const std::vector<Thread*>& running, double now_ns);

  // The next moment at which rates change though no thread wakes up or sleeps.
  double next_change_ns() const { return next_change_ns_; }

  double cores_used() const { return used_; }

 private:
  void fill(const std::vector<Thread*>& running);
  void balance(double now_ns);
  void set_rates(const std::vector<Thread*>& running);
  double set_rates_of(const std::vector<Thread*>& running, size_t core, bool sleepers, double capacity);
  void slow_by_company(const std::vector<Thread*>& running) const;
  double rate_of(const Thread& thread, double speed) const;
  bool is_crowded_beside_idle() const;
  double tick_after(double now_ns) const;

  const double cores_;
  const Scheduling scheduling_;
  const double company_loss_;
  std::vector<std::vector<Thread*>> queues_;
  std::vector<double> shares_;
  double next_change_ns_ = 0, used_ = 0, looked_at_ = 0;
  int looks_left_ = 0;
};

}  // namespace gpuwatch::predict
