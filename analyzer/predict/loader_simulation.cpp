// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/loader_simulation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "analyzer/model/steps.h"
#include "analyzer/predict/late_helpers.h"
#include "analyzer/predict/worker_parts.h"

namespace gpuwatch::predict {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr size_t kNoBatch = ~size_t{0};
constexpr double kDone = 1e-3;  // ns; far below a clock tick, far above rounding of the sums

// To hand a batch over is to compute: a job with one worker and a core to spare used 0.75 ms of CPU a batch
// besides fetching and training, and its hand-over took 0.93 ms.
constexpr double kHandOverShare = 1;
constexpr double kPinShare = 0;

// Of the batches before the first recorded step: up to the last one with far more work behind it than there
// is in a step.
size_t long_warm_up(const ReplayEpoch& epoch) {
  double think_ns = 0, counted = 0;
  for (const BatchCost& batch : epoch.batches) {
    if (!batch.counted) continue;
    think_ns += batch.think_ns;
    ++counted;
  }
  size_t end = 0;
  for (size_t i = 0; i < epoch.batches.size() && !epoch.batches[i].counted; ++i)
    if (epoch.batches[i].think_ns * counted > model::kWarmUpFactor * think_ns) end = i + 1;
  return end;
}

double share_of(const BatchCost& batch) {
  return batch.service_ns > 0 ? batch.cpu_ns / batch.service_ns : 0;
}

// Of an epoch that was read to its end, the batches that each worker has to give.
std::vector<size_t> batches_of_workers(const LoaderReplayInput& recording, const ReplayEpoch& epoch,
                                       const LoaderSetting& setting) {
  if (!epoch.is_whole || !setting.in_order) return {};
  const std::vector<int> parts = parts_of_workers(recording, setting);
  const size_t all = size_t(std::accumulate(parts.begin(), parts.end(), 0));
  std::vector<size_t> batches;
  for (const int part : parts) batches.push_back((epoch.batches.size() * size_t(part) + all - 1) / all);
  return batches;
}

// More workers than batches would have nothing to do.
size_t useful(int workers, const ReplayEpoch& epoch) {
  return std::min(size_t(std::max(workers, 0)), std::max<size_t>(epoch.batches.size(), 1));
}

}  // namespace

EpochSimulation::EpochSimulation(const LoaderReplayInput& recording, const ReplayEpoch& epoch,
                                 const LoaderSetting& setting)
    : recording_(recording),
      epoch_(epoch),
      setting_(setting),
      long_warm_up_(long_warm_up(epoch)),
      workers_(useful(serving_workers(recording, setting), epoch)),
      left_(batches_of_workers(recording, epoch, setting)),
      queues_(setting.cores > 0 ? setting.cores : recording.cores, workers_.size() + 1, recording.scheduling,
              recording.company_loss) {
  for (size_t i = 0; i < workers_.size(); ++i) {
    workers_[i].main.core = workers_[i].sender.core = (i + 1) % queues_.count();
    workers_[i].sender.comes_first = true;
  }
  receiver_.pin_thread.comes_first = true;
  own_.comes_first = recording.think_cores < 0.5 && !workers_.empty();
}

// The recorded batch under the setting's factors: each part of it by its own.
BatchCost EpochSimulation::cost(size_t batch) const {
  BatchCost result = epoch_.batches[batch];
  double other = std::max(0.0, result.service_ns - result.cpu_ns - result.io_ns);
  result.cpu_ns *= setting_.cpu_factor;
  result.io_ns *= setting_.io_factor;
  if (!workers_.empty()) {
    result.cpu_ns += recording_.fetch_helpers_ns * setting_.cpu_factor +
                     result.bytes * recording_.hand_over.share_ns_per_byte;
    (setting_.pin ? result.pin_ns : result.think_ns) +=
        result.bytes * recording_.hand_over.first_use_ns_per_byte;
  }
  result.service_ns = result.cpu_ns + result.io_ns + other;
  return result;
}

// What the batch that is being taken counts for.
StepTime& EpochSimulation::step_time() {
  const bool is_in_first = epoch_.is_first && double(taken_) + 0.5 < recording_.batches_per_step;
  return is_in_first ? totals_->first_step : totals_->steps;
}

void EpochSimulation::run(Totals& totals) {
  totals_ = &totals;
  owner_of_.assign(epoch_.batches.size(), 0);
  available_.assign(epoch_.batches.size(), false);
  bool is_cold = epoch_.is_first || !setting_.persistent;
  for (Worker& worker : workers_) worker.is_new = is_cold;
  while (sent_ < std::min(ahead(), epoch_.batches.size())) send_index(is_cold);
  lead_left_ = workers_.empty() ? 0 : epoch_.lead_ns;
  while (taken_ < epoch_.batches.size()) advance();
  totals.span_ns += now_;
}

// Batches that may be handed out and not taken yet. The stock that workers lay in while a compiler runs lasts
// for a short run, not for a long one: during such a warm-up it is no larger than it was in the recorded run,
// or one batch a worker.
size_t EpochSimulation::ahead() const {
  // A worker that has nothing to give leaves its indices to the others.
  const size_t full = size_t(std::max(setting_.prefetch_factor, 1)) * useful(setting_.workers, epoch_);
  const LoaderSetting& recorded = recording_.setting;
  if (taken_ >= long_warm_up_ || setting_ == recorded) return full;
  const size_t recorded_ahead =
      size_t(std::max(recorded.workers, 0)) * size_t(std::max(recorded.prefetch_factor, 0));
  return std::min(full, std::max(recorded_ahead, workers_.size()));
}

// One that has data left; out of order, one that owes less than its share.
bool EpochSimulation::has_turn(size_t worker) {
  if (!setting_.in_order) return workers_[worker].owed < size_t(std::max(setting_.prefetch_factor, 1));
  if (left_.empty()) return true;
  if (left_[worker] == 0) return false;
  --left_[worker];
  return true;
}

size_t EpochSimulation::next_worker() {
  for (size_t i = 0; i < workers_.size(); ++i) {
    size_t candidate = cycle_++ % workers_.size();
    if (has_turn(candidate)) return candidate;
  }
  return cycle_++ % workers_.size();
}

void EpochSimulation::send_index(bool is_cold) {
  size_t target = next_worker();
  Worker& worker = workers_[target];
  bool is_idle = !worker.busy && worker.tasks.empty();
  double dispatch = is_cold ? recording_.restart.come_up_ns : recording_.hand_over.dispatch_ns;
  owner_of_[sent_] = target;
  ++worker.owed;
  worker.tasks.push_back({sent_++, now_ + (is_idle ? dispatch : 0)});
}

void EpochSimulation::enter_next() {
  entered_next_ = now_;
  if (workers_.empty()) {
    BatchCost batch = cost(taken_);
    const double draw_ns = recording_.hand_over.draw_ns * setting_.draw_factor;
    batch.service_ns += draw_ns;
    batch.cpu_ns += draw_ns;
    consumer_ = Consumer::kFetching;
    begin(own_, batch.service_ns, share_of(batch));
    return;
  }
  consumer_ = Consumer::kWaiting;
  look_for_batch();
}

void EpochSimulation::look_for_batch() {
  size_t batch = kNoBatch;
  if (setting_.in_order) {
    if (is_available(taken_)) batch = taken_;
  } else if (!arrived_.empty()) {
    batch = arrived_.front();
  }
  if (batch == kNoBatch) {
    if (!setting_.pin && receiver_.state == Receiver::kTaking) return;
    if (setting_.pin || messages_.empty()) own_.is_awake = false;
    return receive();
  }
  if (!setting_.in_order) arrived_.pop_front();
  returning_ = batch;
  consumer_ = Consumer::kReturning;
  const HandOver& hand_over = recording_.hand_over;
  begin(own_, hand_over.finish_ns - hand_over.draw_ns * (1 - setting_.draw_factor), kHandOverShare);
}

void EpochSimulation::leave_next() {
  if (epoch_.batches[taken_].counted) step_time().wait_ns += now_ - entered_next_;
  if (!workers_.empty()) {
    --workers_[owner_of_[returning_]].owed;
    while (sent_ < std::min(taken_ + 1 + ahead(), epoch_.batches.size())) send_index(false);
  }
  consumer_ = Consumer::kThinking;
  think_began_ = now_;
  const BatchCost batch = cost(taken_);
  const double slept_ns = workers_.empty() ? batch.service_ns - batch.cpu_ns : now_ - entered_next_;
  begin(own_, think_after(recording_, batch, slept_ns), recording_.think_cores);
}

void EpochSimulation::end_think() {
  if (epoch_.batches[taken_].counted) {
    step_time().think_ns += now_ - think_began_;
    ++step_time().batches;
  }
  if (++taken_ < epoch_.batches.size()) enter_next();
}

void EpochSimulation::start_fetch(Worker& worker) {
  worker.batch = worker.tasks.front().batch;
  worker.tasks.pop_front();
  worker.busy = true;
  worker.is_turning = false;
  worker.began = now_;
  BatchCost batch = cost(worker.batch);
  if (worker.is_new) {
    batch.service_ns += recording_.restart.first_fetch_ns;
    batch.cpu_ns += recording_.restart.first_fetch_cpu_ns;
  }
  begin(worker.main, batch.service_ns, share_of(batch));
}

void EpochSimulation::end_fetch(Worker& worker) {
  worker.busy = false;
  worker.is_turning = !worker.tasks.empty() && worker.tasks.front().may_begin <= now_;
  worker.main.is_awake = worker.is_turning;
  if (worker.is_turning)
    begin(worker.main, recording_.hand_over.turnaround_ns, kHandOverShare / recording_.hand_over.busy_factor);
  worker.is_let_through = true;
  if (receiver_.state == Receiver::kTaking && owner_of_[receiver_.batch] == owner_of_[worker.batch])
    receiver_.is_let_through = true;
  const double send_ns = epoch_.batches[worker.batch].send_ns;
  // A new worker waits for its connections to be set up.
  const double connect_ns = std::exchange(worker.is_new, false) ? recording_.restart.first_send_ns : 0;
  const double whole_ns = send_ns + connect_ns;
  worker.outbox.push_back({worker.batch, whole_ns, whole_ns > 0 ? kHandOverShare * send_ns / whole_ns : 0});
  if (worker.outbox.size() == 1) send_next(worker);
  if (epoch_.batches[worker.batch].counted) {
    totals_->fetch_wall_ns += now_ - worker.began;
    totals_->service_ns += cost(worker.batch).service_ns;
  }
}

void EpochSimulation::send_next(Worker& worker) {
  worker.is_let_through = worker.sender.is_awake = false;
  if (!worker.outbox.empty())
    begin(worker.sender, worker.outbox.front().send_ns, worker.outbox.front().cpu_share);
}

// The next message, if one is there: in the order in which they came, whichever batch is waited for.
void EpochSimulation::receive() {
  if (receiver_.state != Receiver::kIdle || messages_.empty()) return;
  receiver_.state = Receiver::kTaking;
  receiver_.batch = messages_.front();
  receiver_.is_let_through = false;
  messages_.pop_front();
  begin(receiving_thread(), recording_.hand_over.take_ns, kHandOverShare);
}

void EpochSimulation::pump() {
  if (receiver_.state != Receiver::kIdle && receiving_thread().left_ns <= kDone) {
    const bool is_to_pin = receiver_.state == Receiver::kTaking && setting_.pin;
    const BatchCost batch = cost(receiver_.batch);
    const double pin_ns =
        epoch_.batches[receiver_.batch].pin_ns > 0 ? batch.pin_ns : batch.pin_ns + recording_.pin_ns;
    receiver_.state = is_to_pin ? Receiver::kPinning : Receiver::kIdle;
    if (is_to_pin) begin(receiver_.pin_thread, pin_ns, kPinShare);
    if (receiving_thread().left_ns <= kDone) {
      available_[receiver_.batch] = true;
      if (!setting_.in_order) arrived_.push_back(receiver_.batch);
      receiver_.state = Receiver::kIdle;
    }
    if (receiver_.state == Receiver::kIdle) receiver_.pin_thread.is_awake = false;
  }
  if (setting_.pin) receive();
}

// How fast a message is passed on: a worker that computes does not let go of the interpreter for long.
double EpochSimulation::epoch_through(const Worker& worker) const {
  if (!worker.busy) return 1;
  const HandOver& hand_over = recording_.hand_over;
  if (hand_over.measured) return 1 / hand_over.busy_factor;
  return 1 - worker.main.cpu_share + worker.main.cpu_share / hand_over.busy_factor;
}

double EpochSimulation::receive_rate() const {
  return receiver_.is_let_through ? 1 : epoch_through(workers_[owner_of_[receiver_.batch]]);
}

void EpochSimulation::begin(Thread& thread, double left_ns, double cpu_share) {
  thread.left_ns = left_ns;
  thread.cpu_share = cpu_share;
  if (thread.is_awake) return;
  find_activities();
  queues_.wake(thread, running_);
  thread.is_awake = true;
}

// What takes time now; what waits for the interpreter's lock is slowed and asks for less CPU.
void EpochSimulation::find_activities() {
  activities_.clear();
  auto add = [&](Thread& thread, double pace = 1) {
    activities_.push_back({.left_ns = &thread.left_ns, .rate = pace, .thread = &thread});
  };
  auto add_message = [&](Thread& thread, double cpu_share, double pace) {
    thread.cpu_share = cpu_share * pace;
    add(thread, pace);
  };
  if (consumer_ == Consumer::kStarting)
    activities_.push_back({.left_ns = &lead_left_, .rate = 1});
  else if (own_.is_awake && consumer_ != Consumer::kWaiting)
    add(own_);
  for (Worker& worker : workers_) {
    if (worker.main.is_awake) add(worker.main);
    if (worker.sender.is_awake)
      add_message(worker.sender, worker.outbox.front().cpu_share,
                  worker.is_let_through ? 1 : epoch_through(worker));
  }
  if (receiver_.state == Receiver::kPinning) add(receiver_.pin_thread);
  if (receiver_.state == Receiver::kTaking && receiving_thread().is_awake)
    add_message(receiving_thread(), kHandOverShare, receive_rate());
  running_.clear();
  for (const Activity& activity : activities_)
    if (activity.thread) running_.push_back(activity.thread);
}

void EpochSimulation::collect_activities() {
  find_activities();
  queues_.share(running_, now_);
  for (Activity& activity : activities_)
    if (activity.thread) activity.rate *= activity.thread->rate;
}

// When it ends, if nothing changes until then.
double EpochSimulation::end_of(const Activity& activity) const {
  if (*activity.left_ns <= 0) return now_;
  return activity.rate > 0 ? now_ + *activity.left_ns / activity.rate : kNever;
}

// To the next moment at which anything changes. What ends then has nothing left, whatever the difference of
// two times says: a damaged trace has batches that take a year, beside which the last microsecond of another
// rounds to nothing, and was left for ever. So each call ends something that a batch is made of, or is one of
// the few looks of a core at the others' queues.
void EpochSimulation::advance() {
  ++totals_->moments;
  collect_activities();
  double until = queues_.next_change_ns();
  for (Activity& activity : activities_) {
    activity.end_ns = end_of(activity);
    until = std::min(until, activity.end_ns);
  }
  for (const Worker& worker : workers_)
    if (!worker.busy && !worker.is_turning && !worker.tasks.empty())
      until = std::min(until, std::max(now_, worker.tasks.front().may_begin));
  if (until == kNever) {  // nothing will ever happen: only a recording with no work at all gets here
    taken_ = epoch_.batches.size();
    return;
  }
  double elapsed = until - now_;
  now_ = until;
  for (const Activity& activity : activities_)
    *activity.left_ns = activity.end_ns <= until ? 0 : *activity.left_ns - elapsed * activity.rate;
  totals_->cpu_ns += elapsed * queues_.cores_used();
  for (const Worker& worker : workers_) totals_->worker_ns += worker.busy ? elapsed : 0;
  totals_->pin_ns += setting_.pin && receiver_.state != Receiver::kIdle ? elapsed : 0;
  settle_workers();
  if (!workers_.empty()) pump();
  settle_consumer();
}

void EpochSimulation::settle_workers() {
  for (Worker& worker : workers_) {
    if (worker.busy && worker.main.left_ns <= kDone) end_fetch(worker);
    if (!worker.outbox.empty() && worker.sender.left_ns <= kDone) {
      messages_.push_back(worker.outbox.front().batch);
      worker.outbox.pop_front();
      send_next(worker);
    }
    const bool may_begin = !worker.tasks.empty() && worker.tasks.front().may_begin <= now_ + kDone;
    if (!worker.busy && may_begin && (!worker.is_turning || worker.main.left_ns <= kDone))
      start_fetch(worker);
  }
}

void EpochSimulation::settle_consumer() {
  switch (consumer_) {
    case Consumer::kStarting:
      if (lead_left_ <= kDone) enter_next();
      break;
    case Consumer::kThinking:
      if (own_.left_ns <= kDone) end_think();
      break;
    case Consumer::kFetching:
      if (own_.left_ns <= kDone) leave_next();
      break;
    case Consumer::kWaiting:
      look_for_batch();
      break;
    case Consumer::kReturning:
      if (own_.left_ns <= kDone) leave_next();
      break;
  }
}

}  // namespace gpuwatch::predict
