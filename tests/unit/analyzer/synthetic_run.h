// SPDX-License-Identifier: Apache-2.0
// Models made by hand for tests: a job with a data loader, and a job with a device. Each is a schedule
// computed here, independently of the replays under test. Milliseconds in, nanoseconds in the model.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "analyzer/attribute/attribution.h"
#include "analyzer/model/run.h"

namespace gpuwatch::test {

struct Job {
  model::Run run;
  std::vector<attribute::RankAttribution> ranks;
  model::Process& process() { return run.processes.front(); }
  attribute::RankAttribution& rank() { return ranks.front(); }
};

// Steps one after the other, each with the same share of each category. The rest of the step is `compute`.
void set_steps(Job& job, const std::vector<model::TimeSpan>& steps);
void set_shares(Job& job, std::initializer_list<std::pair<attribute::Category, double>> shares);

// Ranks 0, 1, ... of one job, from jobs of one rank each.
Job join_ranks(const std::vector<Job>& jobs);

struct LoaderJob {
  int workers = 1;
  int prefetch_factor = 2;
  size_t batches = 200;
  uint32_t cpu_count = 8;
  double cpu_share = 0;  // of a fetch
  std::function<double(size_t)> service_ms = [](size_t) { return 10.0; };
  std::function<double(size_t)> think_ms = [](size_t) { return 4.0; };
  std::function<size_t(size_t)> worker_of;  // that makes a batch; none: in turn
  double draw_ms = 0;                       // the sampler's time for the indices of a batch, within next()
  double run_delay_share = 0;               // added to each fetch
  std::function<void(model::Batch&)> describe = [](model::Batch&) {};  // what else is known of a batch
};

// Start of each next(), by the textbook recurrence: a worker begins a batch when it is free and was asked,
// the consumer takes batches in order and asks for one more for each that it took.
struct LoaderSchedule {
  struct Batch {
    double sent, begin, end, asked, received, got;
  };
  std::vector<Batch> batches;
  double end = 0;
  size_t warm_up_steps() const;  // 1: the first waits so long for its batch
  double mean_step_ms() const { return mean_step_ms(warm_up_steps()); }
  double mean_step_ms(size_t skip) const;
};
LoaderSchedule loader_schedule(const LoaderJob& job);

Job make_loader_job(const LoaderJob& job);

// Three files for two workers, read to their end: the second worker has none after two thirds of the batches,
// which take 10 ms to make and 4 to use.
Job make_two_files_and_one(size_t batches = 300);

// A device job from a list of host actions a step. Times in microseconds.
struct Action {
  trace::OpClass op_class = trace::OpClass::Launch;
  double gap_us = 0;     // host work before the call
  double cost_us = 5;    // in the call, without waiting
  double device_us = 0;  // operation it enqueues, 0: none
  bool waits = false;    // returns when its operation, or without one everything, is done
  trace::RecordKind kind = trace::RecordKind::Kernel;
  bool pageable = false;
  uint64_t bytes = 0;
  uint32_t blocks = 1000;
  uint16_t stream = 0;
  uint64_t caller = 0;
  std::vector<uint16_t> sources = {};  // of a copy, by turns
  bool stages = false;                 // a copy that begins when its stream has done all before it
  double behind_us = 0;                // from the end of the operation before it on its stream to its begin
};
struct DeviceSchedule {
  double step_us = 0;
};
Job make_device_job(const std::vector<Action>& step, size_t steps);
double device_step_us(const std::vector<Action>& step, size_t steps);
// A loader whose next() brings a batch at the begin of each step, in no time.
model::Loader& add_loader(Job& job);

}  // namespace gpuwatch::test
