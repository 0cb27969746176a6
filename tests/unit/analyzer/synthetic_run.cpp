// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/analyzer/synthetic_run.h"

#include <algorithm>
#include <cmath>

#include "analyzer/model/steps.h"
#include "libinject/trace/layout.h"

namespace gpuwatch::test {

using attribute::Category;
using model::Ns;

namespace {

constexpr double kNsPerMs = 1e6;
constexpr double kNsPerUs = 1e3;
constexpr Ns kStart = 1'000'000'000;

Ns at_ms(double ms) {
  return kStart + Ns(std::llround(ms * kNsPerMs));
}
Ns at_us(double us) {
  return kStart + Ns(std::llround(us * kNsPerUs));
}

Job make_job() {
  Job job;
  job.run.processes.resize(1);
  model::Process& process = job.process();
  process.pid = 4242;
  process.host = "node1";
  process.script = "/home/a/train.py";
  process.cpu_count = 8;
  process.start = kStart;
  process.end_state = model::EndState::kExited;
  process.training_thread = 0;
  process.threads.resize(1);
  process.threads[0].tid = 4242;
  process.sources = {{"python", {trace::SourceState::On, "on", ""}}};
  process.facts = {{"torch", "2.13.0"}, {"python", "3.11.2"}};
  job.ranks.resize(1);
  job.rank().process = 0;
  job.rank().series.source = "optimizer";
  return job;
}

// Host and device clocks of one epoch over the actions.
constexpr size_t kQueueDepth = 1024;  // operations that the device takes before a launch waits

struct Clocks {
  double host = 0, device_end = 0;
  std::vector<double> streams = std::vector<double>(8, 0);
  std::vector<double> op_begins;
};

struct Played {
  double begin, end, op_begin, op_end;
};

Played play(const Action& action, Clocks& clocks) {
  Played played{};
  clocks.host += action.gap_us;
  played.begin = clocks.host;
  if (action.device_us > 0) {
    const size_t outstanding = clocks.op_begins.size();
    if (outstanding >= kQueueDepth)
      clocks.host = std::max(clocks.host, clocks.op_begins[outstanding - kQueueDepth]);
    double& stream = clocks.streams[action.stream];
    if (action.stages) clocks.host = std::max(clocks.host, stream);
    played.op_begin = std::max(clocks.host + action.cost_us, stream > 0 ? stream + action.behind_us : 0);
    played.op_end = stream = played.op_begin + action.device_us;
    clocks.op_begins.push_back(played.op_begin);
    clocks.device_end = std::max(clocks.device_end, stream);
  }
  clocks.host += action.cost_us;
  if (action.waits)
    clocks.host = std::max(clocks.host, action.device_us > 0 ? played.op_end : clocks.device_end);
  played.end = clocks.host;
  return played;
}

}  // namespace

void set_steps(Job& job, const std::vector<model::TimeSpan>& steps) {
  attribute::RankAttribution& rank = job.rank();
  rank.steps.clear();
  rank.series.steps.clear();
  for (const model::TimeSpan& step : steps) {
    rank.series.steps.push_back({step.begin, step.end, 1, false});
    rank.steps.push_back({rank.series.steps.back(), {}});
  }
  job.process().last_seen = steps.back().end;
  set_shares(job, {});
}

void set_shares(Job& job, std::initializer_list<std::pair<Category, double>> shares) {
  attribute::RankAttribution& rank = job.rank();
  rank.times.fill(0);
  rank.wall_ns = 0;
  for (attribute::StepAttribution& step : rank.steps) {
    step.times.fill(0);
    Ns length = step.step.end - step.step.begin, left = length;
    for (auto [category, share] : shares) {
      Ns part = Ns(share * double(length));
      step.times[size_t(category)] += part;
      left -= part;
    }
    step.times[size_t(Category::Compute)] += left;
    for (size_t i = 0; i < attribute::kCategoryCount; ++i) rank.times[i] += step.times[i];
    rank.wall_ns += length;
  }
}

Job join_ranks(const std::vector<Job>& jobs) {
  Job all = jobs.front();
  all.run.processes.clear();
  all.ranks.clear();
  for (size_t i = 0; i < jobs.size(); ++i) {
    model::Process& process = all.run.processes.emplace_back(jobs[i].run.processes.front());
    process.rank = int(i);
    process.world_size = int(jobs.size());
    process.pid += uint32_t(i);
    all.ranks.push_back(jobs[i].ranks.front());
    all.ranks.back().process = uint32_t(i);
  }
  return all;
}

size_t LoaderSchedule::warm_up_steps() const {
  return batches[1].asked - batches[0].asked > model::kWarmUpFactor * mean_step_ms(1) ? 1 : 0;
}

double LoaderSchedule::mean_step_ms(size_t skip) const {
  return (end - batches[skip].asked) / double(batches.size() - skip);
}

namespace {

size_t worker_of(const LoaderJob& job, size_t batch) {
  return job.worker_of ? job.worker_of(batch) : batch % size_t(std::max(job.workers, 1));
}

}  // namespace

LoaderSchedule loader_schedule(const LoaderJob& job) {
  LoaderSchedule schedule;
  schedule.batches.resize(job.batches);
  std::vector<double> free_at(size_t(std::max(job.workers, 1)), 0);
  double now = 0;
  auto make = [&](size_t i, double sent) {
    LoaderSchedule::Batch& batch = schedule.batches[i];
    double& free = free_at[worker_of(job, i)];
    batch.sent = sent;
    batch.begin = std::max(free, sent);
    batch.end = free = batch.begin + job.service_ms(i);
  };
  size_t ahead = size_t(job.workers * job.prefetch_factor), sent = 0;
  while (sent < std::min(ahead, job.batches)) make(sent++, 0);
  for (size_t i = 0; i < job.batches; ++i) {
    LoaderSchedule::Batch& batch = schedule.batches[i];
    if (job.workers == 0) make(i, now + job.draw_ms);
    batch.asked = now;
    batch.received = now = std::max(now, batch.end);
    if (job.workers > 0 && sent < job.batches) make(sent++, now += job.draw_ms);
    batch.got = now;
    now += job.think_ms(i);
  }
  schedule.end = now;
  return schedule;
}

Job make_loader_job(const LoaderJob& wanted) {
  Job job = make_job();
  model::Process& process = job.process();
  process.cpu_count = wanted.cpu_count;
  LoaderJob slowed = wanted;
  slowed.service_ms = [&](size_t i) { return wanted.service_ms(i) * (1 + wanted.run_delay_share); };
  LoaderSchedule schedule = loader_schedule(slowed);

  model::Loader loader;
  loader.class_name = "DataLoader";
  loader.dataset = "Images";
  loader.location = "/home/a/train.py:88";
  loader.num_workers = wanted.workers;
  loader.prefetch_factor = wanted.prefetch_factor;
  loader.batch_size = 64;
  loader.thread = 0;
  process.loaders = {loader};
  model::LoaderEpoch epoch;
  epoch.workers.resize(size_t(wanted.workers));
  std::vector<model::TimeSpan> steps;
  double waited = 0;
  for (size_t i = 0; i < schedule.batches.size(); ++i) {
    const LoaderSchedule::Batch& from = schedule.batches[i];
    model::Batch batch;
    batch.index = uint32_t(i);
    batch.sent = wanted.workers ? at_ms(from.sent) : 0;
    batch.fetch = {at_ms(from.begin), at_ms(from.end)};
    double service = wanted.service_ms(i) * kNsPerMs;
    batch.fetch_run_delay_ns = Ns(service * wanted.run_delay_share);
    batch.fetch_cpu_ns = std::max<Ns>(1, Ns(service * wanted.cpu_share));  // the rest is sleep; 0: not known
    batch.next = {at_ms(from.asked), at_ms(from.got)};
    if (batch.next.end <= batch.next.begin) batch.next.end = batch.next.begin + 1;
    if (wanted.workers > 0) {
      batch.worker = uint32_t(worker_of(wanted, i));
      batch.received = at_ms(from.received);
    }
    waited += from.got - from.asked;
    double end = i + 1 < schedule.batches.size() ? schedule.batches[i + 1].asked : schedule.end;
    wanted.describe(batch);
    epoch.batches.push_back(batch);
    steps.push_back({at_ms(from.asked), at_ms(end)});
  }
  process.epochs = {epoch};
  steps.erase(steps.begin(), steps.begin() + long(schedule.warm_up_steps()));
  set_steps(job, steps);
  set_shares(job, {{Category::InputTransform, waited / schedule.end}});
  job.rank().series.samples_per_step = 64;
  return job;
}

Job make_two_files_and_one(size_t batches) {
  Job job = make_loader_job({.workers = 2, .batches = batches, .worker_of = [=](size_t i) {
                               return i < batches * 2 / 3 ? i % 2 : size_t{0};
                             }});
  model::Process& process = job.process();
  model::HostCall& end = process.threads[0].calls.emplace_back();
  end.begin = process.epochs[0].batches.back().next.end + 1;
  end.end = end.begin + 1;
  end.op_class = trace::OpClass::LoaderNext;
  end.flags = trace::kFailed;
  end.correlation_or_object = process.loaders[0].id;
  return job;
}

Job make_device_job(const std::vector<Action>& step, size_t steps) {
  Job job = make_job();
  model::Process& process = job.process();
  process.sources["cuda"] = process.sources["cupti"] = {trace::SourceState::On, "on", ""};
  model::Device device;
  device.name = "Test device";
  device.multiprocessors = 100;
  process.streams.resize(8);
  job.rank().device = 0;
  job.rank().device_observed = true;
  job.run.operations = {{"cudaLaunchKernel", trace::OpClass::Launch},
                        {"cudaStreamSynchronize", trace::OpClass::Sync},
                        {"cudaMemcpyAsync", trace::OpClass::Copy},
                        {"cudaMalloc", trace::OpClass::Alloc},
                        {"cudaFree", trace::OpClass::Free}};
  model::Thread& thread = process.threads[0];
  Clocks clocks;
  std::vector<model::TimeSpan> intervals;
  for (size_t s = 0; s < steps; ++s) {
    Ns begin = at_us(clocks.host);
    for (const Action& action : step) {
      Played played = play(action, clocks);
      model::HostCall call{at_us(played.begin), at_us(played.end), 0, 0, model::kNone, 0, action.op_class, 0};
      auto named = std::find_if(
          job.run.operations.begin(), job.run.operations.end(),
          [&](const model::Operation& operation) { return operation.op_class == action.op_class; });
      if (named != job.run.operations.end()) call.operation = uint16_t(named - job.run.operations.begin());
      const bool is_event = detail_kind(call.op_class) == trace::DetailKind::kEvent;
      call.detail = uint32_t(is_event ? thread.event_details.size() : thread.call_details.size());
      if (is_event) thread.event_details.emplace_back(0, action.caller, 0, 0);
      trace::CallDetail detail;
      detail.mutate_caller(action.caller);
      detail.mutate_bytes(action.bytes);
      if (!action.sources.empty()) detail.mutate_source(action.sources[s % action.sources.size()]);
      if (!is_event) thread.call_details.push_back(detail);
      if (action.device_us > 0) {
        model::DeviceOp op{};
        op.begin = at_us(played.op_begin);
        op.end = at_us(played.op_end);
        op.bytes = action.bytes;
        op.kind = action.kind;
        op.flags = action.pageable ? trace::kSourcePageable : 0;
        op.stream = action.stream;
        op.launch_thread = 0;
        op.launch_call = uint32_t(thread.calls.size());
        op.kernel = model::kNone;
        if (action.kind == trace::RecordKind::Kernel) {
          op.kernel = uint32_t(job.run.kernels.size());
          job.run.kernels.push_back({"kernel", {action.blocks, 1, 1}, {1024, 1, 1}, false});
        }
        device.operations.push_back(op);
      }
      thread.calls.push_back(call);
    }
    intervals.push_back({begin, at_us(clocks.host)});
  }
  intervals.back().end = std::max(intervals.back().end, at_us(clocks.device_end));
  process.devices = {device};
  set_steps(job, intervals);
  return job;
}

double device_step_us(const std::vector<Action>& step, size_t steps) {
  Clocks clocks;
  for (size_t s = 0; s < steps; ++s)
    for (const Action& action : step) play(action, clocks);
  return std::max(clocks.host, clocks.device_end) / double(steps);
}

model::Loader& add_loader(Job& job) {
  model::LoaderEpoch epoch{};
  epoch.loader = uint32_t(job.process().loaders.size());
  for (const attribute::StepAttribution& step : job.rank().steps) {
    model::Batch& batch = epoch.batches.emplace_back();
    batch.next = {step.step.begin, step.step.begin + 1};
  }
  job.process().epochs.push_back(std::move(epoch));
  return job.process().loaders.emplace_back();
}

}  // namespace gpuwatch::test
