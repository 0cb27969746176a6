// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/loader_replay.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <random>

namespace gpuwatch::predict {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kNsPerMs = 1e6;
constexpr double kCompetes = 1.05;  // fetches stretched by less are not disturbed

// Something that takes time: a fetch in a worker, an inline fetch, the consumer's own work.
struct Job {
  double left_ns = 0;
  double cpu_share = 0;  // cores asked for while it runs; above 1: parallel work, all of it on CPUs
};

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

struct Totals {
  double wait_ns = 0, think_ns = 0, fetch_wall_ns = 0, service_ns = 0;
  size_t batches = 0;
};

// One pass, from handing out the first indices to the end of the last batch's work.
class PassSimulation {
 public:
  PassSimulation(const LoaderRecording& recording, const RecordedPass& pass, LoaderSetting setting)
      : recording_(recording), pass_(pass), setting_(setting), workers_(std::max(setting.workers, 0)) {}

  void run(Totals& totals) {
    totals_ = &totals;
    done_at_.assign(pass_.batches.size(), kNever);
    owner_of_.assign(pass_.batches.size(), 0);
    if (!workers_.empty()) {
      size_t ahead = size_t(std::max(setting_.prefetch_factor, 1)) * workers_.size();
      while (sent_ < std::min(ahead, pass_.batches.size())) send_index();
    }
    enter_next_at_ = workers_.empty() ? 0 : pass_.lead_ns;
    while (taken_ < pass_.batches.size()) advance();
  }

 private:
  struct Task {
    size_t batch;
    double may_begin;
  };
  struct Worker {
    std::deque<Task> tasks;
    bool busy = false;
    size_t batch = 0;
    double began = 0;
    Job job;
  };
  enum class Consumer { kThinking, kFetching, kWaiting, kReturning };

  void send_index() {
    size_t target = sent_ % workers_.size();
    if (!setting_.in_order) {
      auto outstanding = [](const Worker& worker) { return worker.tasks.size() + worker.busy; };
      for (size_t i = 0; i < workers_.size(); ++i)
        if (outstanding(workers_[i]) < outstanding(workers_[target])) target = i;
    }
    double dispatch =
        workers_[target].busy || !workers_[target].tasks.empty() ? 0 : recording_.hand_over.dispatch_ns;
    owner_of_[sent_] = target;
    workers_[target].tasks.push_back({sent_++, now_ + dispatch});
  }

  // The consumer's next(): take a finished batch, or wait.
  void try_take() {
    size_t batch = kNoBatch;
    if (setting_.in_order) {
      if (done_at_[taken_] != kNever) batch = taken_;
    } else if (!finished_.empty()) {
      batch = finished_.front();
      finished_.pop_front();
    }
    if (batch == kNoBatch) {
      consumer_ = Consumer::kWaiting;
      return;
    }
    const HandOver& cost = recording_.hand_over;
    consumer_ = Consumer::kReturning;
    double ready = cost.ready_ns + (workers_[owner_of_[batch]].busy ? cost.owner_busy_ns : 0);
    returns_at_ = std::max(
        {now_, entered_next_ + ready, done_at_[batch] + pass_.batches[batch].receive_ns + cost.finish_ns});
  }

  void enter_next() {
    entered_next_ = now_;
    if (!workers_.empty()) return try_take();
    const BatchCost& batch = pass_.batches[taken_];
    consumer_ = Consumer::kFetching;
    own_ = {batch.service_ns, batch.service_ns > 0 ? batch.cpu_ns / batch.service_ns : 0};
  }

  void leave_next() {
    const BatchCost& batch = pass_.batches[taken_];
    if (batch.counted) totals_->wait_ns += now_ - entered_next_;
    if (sent_ < pass_.batches.size() && !workers_.empty()) send_index();
    consumer_ = Consumer::kThinking;
    think_began_ = now_;
    own_ = {batch.think_ns, recording_.think_cores};
  }

  void end_think() {
    if (pass_.batches[taken_].counted) {
      totals_->think_ns += now_ - think_began_;
      ++totals_->batches;
    }
    if (++taken_ < pass_.batches.size()) enter_next();
  }

  void start_fetch(Worker& worker) {
    const BatchCost& batch = pass_.batches[worker.tasks.front().batch];
    worker.batch = worker.tasks.front().batch;
    worker.tasks.pop_front();
    worker.busy = true;
    worker.began = now_;
    worker.job = {batch.service_ns, batch.service_ns > 0 ? batch.cpu_ns / batch.service_ns : 0};
  }

  void end_fetch(Worker& worker) {
    worker.busy = false;
    done_at_[worker.batch] = now_;
    if (!setting_.in_order) finished_.push_back(worker.batch);
    if (pass_.batches[worker.batch].counted) {
      totals_->fetch_wall_ns += now_ - worker.began;
      totals_->service_ns += pass_.batches[worker.batch].service_ns;
    }
    if (!worker.tasks.empty()) {
      double& may_begin = worker.tasks.front().may_begin;
      may_begin = std::max(may_begin, now_ + recording_.hand_over.turnaround_ns);
    }
  }

  bool consumer_computes() const {
    return !before_first_ && (consumer_ == Consumer::kThinking || consumer_ == Consumer::kFetching);
  }

  // To the next moment at which anything changes.
  void advance() {
    shares_.clear();
    if (consumer_computes()) shares_.push_back(own_.cpu_share);
    for (const Worker& worker : workers_)
      if (worker.busy) shares_.push_back(worker.job.cpu_share);
    double speed = cpu_speed(shares_, recording_.cores);

    double until = kNever;
    if (before_first_) until = std::min(until, enter_next_at_);
    if (consumer_computes()) until = std::min(until, now_ + own_.left_ns / rate(own_.cpu_share, speed));
    if (!before_first_ && consumer_ == Consumer::kReturning) until = std::min(until, returns_at_);
    for (const Worker& worker : workers_) {
      if (worker.busy)
        until = std::min(until, now_ + worker.job.left_ns / rate(worker.job.cpu_share, speed));
      else if (!worker.tasks.empty())
        until = std::min(until, std::max(now_, worker.tasks.front().may_begin));
    }
    if (until == kNever) {  // nothing will ever happen: only a recording with no work at all gets here
      taken_ = pass_.batches.size();
      return;
    }
    double elapsed = until - now_;
    now_ = until;
    if (consumer_computes()) own_.left_ns -= elapsed * rate(own_.cpu_share, speed);
    for (Worker& worker : workers_)
      if (worker.busy) worker.job.left_ns -= elapsed * rate(worker.job.cpu_share, speed);
    settle_workers();
    settle_consumer();
  }

  void settle_workers() {
    for (Worker& worker : workers_) {
      if (worker.busy && worker.job.left_ns <= kDone) end_fetch(worker);
      if (!worker.busy && !worker.tasks.empty() && worker.tasks.front().may_begin <= now_ + kDone)
        start_fetch(worker);
    }
  }

  void settle_consumer() {
    if (before_first_) {
      if (enter_next_at_ > now_ + kDone) return;
      before_first_ = false;
      return enter_next();
    }
    switch (consumer_) {
      case Consumer::kThinking:
        if (own_.left_ns <= kDone) end_think();
        break;
      case Consumer::kFetching:
        if (own_.left_ns <= kDone) leave_next();
        break;
      case Consumer::kWaiting:
        try_take();
        break;
      case Consumer::kReturning:
        if (returns_at_ <= now_ + kDone) leave_next();
        break;
    }
  }

  static constexpr size_t kNoBatch = ~size_t{0};
  static constexpr double kDone = 1e-3;  // ns; far below a clock tick, far above rounding of the sums

  const LoaderRecording& recording_;
  const RecordedPass& pass_;
  const LoaderSetting setting_;
  std::vector<Worker> workers_;
  std::vector<double> done_at_;
  std::vector<size_t> owner_of_;
  std::deque<size_t> finished_;
  std::vector<double> shares_;
  Totals* totals_ = nullptr;
  Job own_;
  Consumer consumer_ = Consumer::kThinking;
  bool before_first_ = true;
  size_t sent_ = 0, taken_ = 0;
  double now_ = 0, enter_next_at_ = 0, entered_next_ = 0, returns_at_ = 0, think_began_ = 0;
};

// Blocks keep slow stretches together: batch times are not independent of their neighbours.
std::vector<RecordedPass> resample(const LoaderRecording& recording, std::mt19937& random) {
  std::vector<const BatchCost*> pool;
  for (const RecordedPass& pass : recording.passes)
    for (const BatchCost& batch : pass.batches)
      if (batch.counted) pool.push_back(&batch);
  size_t block = std::max<size_t>(4, size_t(std::sqrt(double(pool.size()))));
  std::vector<RecordedPass> passes = recording.passes;
  std::uniform_int_distribution<size_t> begin(0, pool.size() - 1);
  size_t at = 0, left = 0;
  for (RecordedPass& pass : passes) {
    for (BatchCost& batch : pass.batches) {
      if (left == 0) {
        at = begin(random);
        left = block;
      }
      bool counted = batch.counted;
      batch = *pool[at];
      batch.counted = counted;
      at = (at + 1) % pool.size();
      --left;
    }
  }
  return passes;
}

}  // namespace

LoaderReplay replay(const LoaderRecording& recording, LoaderSetting setting) {
  Totals totals;
  for (const RecordedPass& pass : recording.passes) PassSimulation(recording, pass, setting).run(totals);
  LoaderReplay result;
  if (totals.batches == 0) return result;
  double per_step = recording.batches_per_step / double(totals.batches) / kNsPerMs;
  result.wait_ms = totals.wait_ns * per_step;
  result.think_ms = totals.think_ns * per_step;
  result.step_ms = result.wait_ms + result.think_ms;
  if (totals.service_ns > 0) result.fetch_stretch = totals.fetch_wall_ns / totals.service_ns;
  return result;
}

ReplayCheck check(const LoaderRecording& recording) {
  return {recording.measured_step_ms, replay(recording, recording.setting).step_ms, recording.steps};
}

Range replay_range(const LoaderRecording& recording, LoaderSetting setting) {
  constexpr int kResamples = 40;
  std::mt19937 random(20240229);
  std::vector<double> steps_ms;
  LoaderRecording sample = recording;
  for (int i = 0; i < kResamples; ++i) {
    sample.passes = resample(recording, random);
    steps_ms.push_back(replay(sample, setting).step_ms);
  }
  std::sort(steps_ms.begin(), steps_ms.end());
  Range range{steps_ms[kResamples / 20], replay(recording, setting).step_ms,
              steps_ms[kResamples - 1 - kResamples / 20]};
  // What the recording leaves open goes into the upper edge.
  LoaderRecording worst = recording;
  worst.hand_over.ready_ns = recording.hand_over.ready_worst_ns;
  if (!recording.think_cores_known) worst.think_cores = recording.think_cores_worst;
  if (setting == recording.setting) return range;
  range.high = std::max(range.high, replay(worst, setting).step_ms);
  // Parallel training that competes with its workers may gain nothing from their working beside it.
  bool competes = recording.think_cores > 1 && setting.workers > 0 &&
                  replay(recording, setting).fetch_stretch > kCompetes;
  if (competes) range.high = std::max(range.high, replay(recording, {0, 1, true}).step_ms);
  return range;
}

double step_without_input_ms(const LoaderRecording& recording) {
  double think_ns = 0;
  size_t count = 0;
  for (const RecordedPass& pass : recording.passes) {
    for (const BatchCost& batch : pass.batches) {
      if (!batch.counted) continue;
      think_ns += batch.think_ns;
      ++count;
    }
  }
  return count ? think_ns / double(count) * recording.batches_per_step / kNsPerMs : 0;
}

}  // namespace gpuwatch::predict
