// SPDX-License-Identifier: Apache-2.0
// One epoch over a loader, event by event: see loader_replay.h for the protocol. Nanoseconds; no state
// outside the object.
#pragma once

#include <deque>
#include <vector>

#include "analyzer/predict/loader_replay.h"
#include "analyzer/predict/run_queues.h"

namespace gpuwatch::predict {

// Of counted batches, the consumer's time.
struct StepTime {
  double wait_ns = 0, think_ns = 0, restart_ns = 0;
  size_t batches = 0;

  double sum_ns() const { return wait_ns + think_ns + restart_ns; }
};

struct Totals {
  StepTime first_step, steps;                                 // the run's first, and all others
  double fetch_wall_ns = 0, service_ns = 0;                   // of counted batches
  double span_ns = 0, cpu_ns = 0, worker_ns = 0, pin_ns = 0;  // all batches; cpu_ns: core time used
  size_t moments = 0;  // that were looked at: the work of the simulation
};

class EpochSimulation {
 public:
  EpochSimulation(const LoaderReplayInput& recording, const ReplayEpoch& epoch, const LoaderSetting& setting);

  void run(Totals& totals);

 private:
  struct Task {
    size_t batch;
    double may_begin;
  };
  struct Message {
    size_t batch;
    double send_ns;
    double cpu_share;
  };
  struct Worker {
    std::deque<Task> tasks;
    std::deque<Message> outbox;
    bool busy = false;
    bool is_turning = false;  // between two batches that it owes
    bool is_new = false;      // has not sent a message yet
    size_t owed = 0;          // handed out, not yet taken by the consumer
    size_t batch = 0;
    double began = 0;
    Thread main;                  // fetches
    Thread sender;                // its feeder thread
    bool is_let_through = false;  // the message that it sends: the worker paused meanwhile
  };
  // Takes messages off the queue: the consumer within next(), or the pin thread at any time.
  struct Receiver {
    enum { kIdle, kTaking, kPinning } state = kIdle;
    size_t batch = 0;
    Thread pin_thread;            // without one it is the consumer that takes
    bool is_let_through = false;  // its worker paused meanwhile: the lock is ours until we are done
  };
  enum class Consumer { kStarting, kThinking, kFetching, kWaiting, kReturning };
  struct Activity {
    double* left_ns;
    double rate;
    Thread* thread = nullptr;  // null: takes no CPU
    double end_ns = 0;
  };

  BatchCost cost(size_t batch) const;
  StepTime& step_time();
  size_t ahead() const;
  bool has_turn(size_t worker);
  size_t next_worker();
  void send_index(bool is_cold);
  void enter_next();
  void look_for_batch();
  void leave_next();
  void end_think();
  void start_fetch(Worker& worker);
  void end_fetch(Worker& worker);
  void receive();
  void pump();
  double epoch_through(const Worker& worker) const;
  void begin(Thread& thread, double left_ns, double cpu_share);
  void send_next(Worker& worker);
  Thread& receiving_thread() { return setting_.pin ? receiver_.pin_thread : own_; }
  double receive_rate() const;
  void find_activities();
  void collect_activities();
  double end_of(const Activity& activity) const;
  void advance();
  void settle_workers();
  void settle_consumer();
  bool is_available(size_t batch) const { return available_[batch]; }

  const LoaderReplayInput& recording_;
  const ReplayEpoch& epoch_;
  const LoaderSetting setting_;
  const size_t long_warm_up_;
  std::vector<Worker> workers_;
  std::vector<size_t> left_;  // batches that each worker can still give; empty: no end of them
  std::vector<size_t> owner_of_;
  std::vector<bool> available_;  // received, and pinned if it has to be
  std::deque<size_t> messages_;  // sent, not taken
  std::deque<size_t> arrived_;   // available in the order in which they became so
  std::vector<Activity> activities_;
  std::vector<Thread*> running_;
  RunQueues queues_;
  Totals* totals_ = nullptr;
  Receiver receiver_;
  Thread own_;
  Consumer consumer_ = Consumer::kStarting;
  size_t sent_ = 0, taken_ = 0, returning_ = 0, cycle_ = 0;
  double now_ = 0, lead_left_ = 0, entered_next_ = 0, think_began_ = 0;
};

}  // namespace gpuwatch::predict
