// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/loader_simulation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace gpuwatch::predict {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr size_t kNoBatch = ~size_t{0};
constexpr double kNoCore = 0.05;  // less of one more core than this is error of measurement
constexpr double kDone = 1e-3;    // ns; far below a clock tick, far above rounding of the sums

// How fast a job advances when CPU work runs at `speed` (1: undisturbed). What is not CPU work is not slowed.
// The threads of a parallel region wait for the slowest of them, spinning: the region loses twice. Training
// on two cores took 15 ms a step alone and 60 ms beside two workers, where equal shares would have made
// it 30.
double rate(double cpu_share, double speed) {
  if (cpu_share > 1) return speed * speed;
  return 1 / (cpu_share / speed + 1 - cpu_share);
}

double cores_used(double cpu_share, double speed) {
  return cpu_share > 1 ? cpu_share * speed : cpu_share * rate(cpu_share, speed);
}

// The common speed of CPU work at which all jobs together use no more than `cores`.
double cpu_speed(const std::vector<double>& shares, double cores) {
  double demand = 0;
  for (double share : shares) demand += share;
  if (demand <= cores) return 1;
  double low = 0, high = 1;
  for (int i = 0; i < 24; ++i) {
    double middle = (low + high) / 2, used = 0;
    for (double share : shares) used += cores_used(share, middle);
    (used > cores ? high : low) = middle;
  }
  return std::max(low, 1e-3);
}

double share_of(const BatchCost& batch) {
  return batch.service_ns > 0 ? batch.cpu_ns / batch.service_ns : 0;
}

}  // namespace

PassSimulation::PassSimulation(const LoaderRecording& recording, const RecordedPass& pass,
                               const LoaderSetting& setting)
    : recording_(recording),
      pass_(pass),
      setting_(setting),
      cores_(setting.cores > 0 ? setting.cores : recording.cores),
      workers_(size_t(std::max(setting.workers, 0))) {
  double cores = std::clamp(std::ceil(cores_ - kNoCore), 1.0, double(workers_.size() + 1));
  on_core_.resize(size_t(cores));
  for (size_t i = 0; i < workers_.size(); ++i) workers_[i].job.core = (i + 1) % on_core_.size();
}

// The recorded batch under the setting's factors: each part of it by its own.
BatchCost PassSimulation::cost(size_t batch) const {
  BatchCost result = pass_.batches[batch];
  double other = std::max(0.0, result.service_ns - result.cpu_ns - result.io_ns);
  result.cpu_ns *= setting_.cpu_factor;
  result.io_ns *= setting_.io_factor;
  result.service_ns = result.cpu_ns + result.io_ns + other;
  return result;
}

void PassSimulation::run(Totals& totals) {
  totals_ = &totals;
  owner_of_.assign(pass_.batches.size(), 0);
  available_.assign(pass_.batches.size(), false);
  bool is_cold = pass_.is_first || !setting_.persistent;
  for (Worker& worker : workers_) worker.is_new = is_cold;
  size_t ahead = size_t(std::max(setting_.prefetch_factor, 1)) * workers_.size();
  while (sent_ < std::min(ahead, pass_.batches.size())) send_index(is_cold);
  lead_left_ = workers_.empty() ? 0 : pass_.lead_ns;
  while (taken_ < pass_.batches.size()) advance();
  totals.span_ns += now_;
}

// In turn; out of order, the next in turn that owes less than its share.
size_t PassSimulation::next_worker() {
  if (setting_.in_order) return sent_ % workers_.size();
  for (size_t i = 0; i < workers_.size(); ++i) {
    size_t candidate = cycle_++ % workers_.size();
    if (workers_[candidate].owed < size_t(std::max(setting_.prefetch_factor, 1))) return candidate;
  }
  return cycle_++ % workers_.size();
}

void PassSimulation::send_index(bool is_cold) {
  size_t target = next_worker();
  Worker& worker = workers_[target];
  bool is_idle = !worker.busy && worker.tasks.empty();
  double dispatch = is_cold ? recording_.restart.come_up_ns : recording_.hand_over.dispatch_ns;
  owner_of_[sent_] = target;
  ++worker.owed;
  worker.tasks.push_back({sent_++, now_ + (is_idle ? dispatch : 0)});
}

void PassSimulation::enter_next() {
  entered_next_ = now_;
  if (workers_.empty()) {
    BatchCost batch = cost(taken_);
    consumer_ = Consumer::kFetching;
    begin(own_, batch.service_ns, share_of(batch));
    return;
  }
  consumer_ = Consumer::kWaiting;
  look_for_batch();
}

void PassSimulation::look_for_batch() {
  size_t batch = kNoBatch;
  if (setting_.in_order) {
    if (is_available(taken_)) batch = taken_;
  } else if (!arrived_.empty()) {
    batch = arrived_.front();
  }
  if (batch == kNoBatch) return receive();
  if (!setting_.in_order) arrived_.pop_front();
  returning_ = batch;
  consumer_ = Consumer::kReturning;
  finish_left_ = recording_.hand_over.finish_ns;
}

void PassSimulation::leave_next() {
  if (pass_.batches[taken_].counted) totals_->wait_ns += now_ - entered_next_;
  if (!workers_.empty()) {
    --workers_[owner_of_[returning_]].owed;
    if (sent_ < pass_.batches.size()) send_index(false);
  }
  consumer_ = Consumer::kThinking;
  think_began_ = now_;
  begin(own_, pass_.batches[taken_].think_ns, recording_.think_cores);
}

void PassSimulation::end_think() {
  if (pass_.batches[taken_].counted) {
    totals_->think_ns += now_ - think_began_;
    ++totals_->batches;
  }
  if (++taken_ < pass_.batches.size()) enter_next();
}

void PassSimulation::start_fetch(Worker& worker) {
  worker.batch = worker.tasks.front().batch;
  worker.tasks.pop_front();
  worker.busy = true;
  worker.began = now_;
  BatchCost batch = cost(worker.batch);
  begin(worker.job, batch.service_ns, share_of(batch));
}

void PassSimulation::end_fetch(Worker& worker) {
  worker.busy = false;
  if (!worker.outbox.empty()) worker.outbox.front().is_let_through = true;
  if (receiver_.state == Receiver::kTaking && owner_of_[receiver_.batch] == owner_of_[worker.batch])
    receiver_.is_let_through = true;
  double send_ns = pass_.batches[worker.batch].send_ns;
  if (std::exchange(worker.is_new, false)) send_ns += recording_.restart.first_send_ns;
  worker.outbox.push_back({worker.batch, send_ns});
  if (pass_.batches[worker.batch].counted) {
    totals_->fetch_wall_ns += now_ - worker.began;
    totals_->service_ns += cost(worker.batch).service_ns;
  }
  if (worker.tasks.empty()) return;
  double& may_begin = worker.tasks.front().may_begin;
  may_begin = std::max(may_begin, now_ + recording_.hand_over.turnaround_ns);
}

// The next message, if one is there: in the order in which they came, whichever batch is waited for.
void PassSimulation::receive() {
  if (receiver_.state != Receiver::kIdle || messages_.empty()) return;
  receiver_ = {Receiver::kTaking, messages_.front(), recording_.hand_over.take_ns, false};
  messages_.pop_front();
}

void PassSimulation::pump() {
  if (receiver_.state != Receiver::kIdle && receiver_.left_ns <= kDone) {
    if (receiver_.state == Receiver::kTaking && setting_.pin) {
      receiver_.state = Receiver::kPinning;
      double own = pass_.batches[receiver_.batch].pin_ns;
      receiver_.left_ns = own > 0 ? own : recording_.pin_ns;
    }
    if (receiver_.left_ns <= kDone) {
      available_[receiver_.batch] = true;
      if (!setting_.in_order) arrived_.push_back(receiver_.batch);
      receiver_.state = Receiver::kIdle;
    }
  }
  if (setting_.pin) receive();
}

// How fast a message passes: a worker that computes does not let go of the interpreter for long.
double PassSimulation::pass_through(const Worker& worker) const {
  if (!worker.busy) return 1;
  const HandOver& hand_over = recording_.hand_over;
  if (hand_over.measured) return 1 / hand_over.busy_factor;
  return 1 - worker.job.cpu_share + worker.job.cpu_share / hand_over.busy_factor;
}

bool PassSimulation::consumer_computes() const {
  return consumer_ == Consumer::kThinking || consumer_ == Consumer::kFetching;
}

// A process that wakes up takes an idle core if there is one, else the core that it was on.
void PassSimulation::begin(Job& job, double left_ns, double cpu_share) {
  job.left_ns = left_ns;
  job.cpu_share = cpu_share;
  find_jobs();
  auto is_idle = [&](size_t core) {
    return std::none_of(on_core_[core].begin(), on_core_[core].end(),
                        [&](const Job* other) { return other != &job; });
  };
  if (is_idle(job.core)) return;
  for (size_t core = 0; core < on_core_.size(); ++core)
    if (is_idle(core)) job.core = core;
}

void PassSimulation::find_jobs() {
  jobs_.clear();
  if (consumer_computes()) jobs_.push_back(&own_);
  for (Worker& worker : workers_)
    if (worker.busy) jobs_.push_back(&worker.job);
  for (std::vector<Job*>& jobs : on_core_) jobs.clear();
  for (Job* job : jobs_) on_core_[job->core].push_back(job);
}

// A core that runs dry takes over from one that has several; otherwise processes stay where they are. Three
// of them on two cores are one alone and two that share, not three times two thirds.
void PassSimulation::fill_idle_cores() {
  for (std::vector<Job*>& idle : on_core_) {
    if (!idle.empty()) continue;
    auto crowded = std::max_element(on_core_.begin(), on_core_.end(),
                                    [](const auto& a, const auto& b) { return a.size() < b.size(); });
    if (crowded->size() < 2) return;
    Job* moved = crowded->back();
    crowded->pop_back();
    moved->core = size_t(&idle - on_core_.data());
    idle.push_back(moved);
  }
}

// Speeds of the jobs: each core shared by those on it, all cores by what can be had of them together.
void PassSimulation::share_cores() {
  find_jobs();
  fill_idle_cores();
  shares_.clear();
  for (const Job* job : jobs_) shares_.push_back(job->cpu_share);
  speeds_.assign(jobs_.size(), cpu_speed(shares_, cores_));
  message_speed_ = jobs_.empty() ? 1 : speeds_.front();
  bool is_parallel = std::any_of(shares_.begin(), shares_.end(), [](double share) { return share > 1; });
  if (is_parallel) return;
  double used = 0;
  for (size_t i = 0; i < jobs_.size(); ++i) {
    std::vector<double> beside;
    for (const Job* job : on_core_[jobs_[i]->core]) beside.push_back(job->cpu_share);
    speeds_[i] = cpu_speed(beside, 1);
    used += cores_used(shares_[i], speeds_[i]);
  }
  if (used > cores_)
    for (double& speed : speeds_) speed *= cores_ / used;
}

void PassSimulation::collect_activities() {
  share_cores();
  activities_.clear();
  for (size_t i = 0; i < jobs_.size(); ++i)
    activities_.push_back({&jobs_[i]->left_ns, rate(shares_[i], speeds_[i])});
  if (consumer_ == Consumer::kStarting) activities_.push_back({&lead_left_, 1});
  if (consumer_ == Consumer::kReturning) activities_.push_back({&finish_left_, 1});
  for (Worker& worker : workers_)
    if (!worker.outbox.empty())
      activities_.push_back(
          {&worker.outbox.front().left_ns,
           message_speed_ * (worker.outbox.front().is_let_through ? 1 : pass_through(worker))});
  if (receiver_.state == Receiver::kPinning) activities_.push_back({&receiver_.left_ns, 1});
  if (receiver_.state == Receiver::kTaking)
    activities_.push_back(
        {&receiver_.left_ns,
         message_speed_ *
             (receiver_.is_let_through ? 1 : pass_through(workers_[owner_of_[receiver_.batch]]))});
}

// To the next moment at which anything changes.
void PassSimulation::advance() {
  collect_activities();
  double until = kNever;
  for (const Activity& activity : activities_)
    until = std::min(until, now_ + std::max(0.0, *activity.left_ns) / activity.rate);
  for (const Worker& worker : workers_)
    if (!worker.busy && !worker.tasks.empty())
      until = std::min(until, std::max(now_, worker.tasks.front().may_begin));
  if (until == kNever) {  // nothing will ever happen: only a recording with no work at all gets here
    taken_ = pass_.batches.size();
    return;
  }
  double elapsed = until - now_;
  now_ = until;
  for (const Activity& activity : activities_) *activity.left_ns -= elapsed * activity.rate;
  double demand = 0;
  for (double share : shares_) demand += share;
  totals_->cpu_ns += elapsed * std::min(demand, cores_);
  for (const Worker& worker : workers_) totals_->worker_ns += worker.busy ? elapsed : 0;
  totals_->pin_ns += setting_.pin && receiver_.state != Receiver::kIdle ? elapsed : 0;
  settle_workers();
  if (!workers_.empty()) pump();
  settle_consumer();
}

void PassSimulation::settle_workers() {
  for (Worker& worker : workers_) {
    if (worker.busy && worker.job.left_ns <= kDone) end_fetch(worker);
    if (!worker.outbox.empty() && worker.outbox.front().left_ns <= kDone) {
      messages_.push_back(worker.outbox.front().batch);
      worker.outbox.pop_front();
    }
    if (!worker.busy && !worker.tasks.empty() && worker.tasks.front().may_begin <= now_ + kDone)
      start_fetch(worker);
  }
}

void PassSimulation::settle_consumer() {
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
      if (finish_left_ <= kDone) leave_next();
      break;
  }
}

}  // namespace gpuwatch::predict
