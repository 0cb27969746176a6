// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/input_facts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "analyzer/model/cpu_time.h"
#include "analyzer/model/quantile.h"
#include "analyzer/predict/loader_replay.h"

namespace gpuwatch::advise {
namespace {

using model::Batch;
using model::HostCall;
using model::kNone;
using model::Ns;
using trace::OpClass;

constexpr Ns kWaited = 100'000;  // a shorter next() found its batch ready

// nullopt: the training thread did not wait for this batch.
std::optional<double> transfer_ns(const Batch& batch) {
  const bool waited = batch.next.length() > kWaited && batch.next.begin < batch.fetch.end;
  if (!waited || batch.next.end <= batch.fetch.end) return std::nullopt;
  return double(batch.next.end - batch.fetch.end);
}

double lowest_decile(const std::vector<double>& values) {
  return values.empty() ? 0 : model::quantile(values, 10);
}

void add_batch(const Batch& batch, InputFacts& facts) {
  facts.threads = std::max(facts.threads, batch.thread_count);
  if (batch.fetch.length() <= 0) return;
  ++facts.batches;
  facts.fetch_ns += double(batch.fetch.length());
  facts.cpu_ns += double(batch.fetch_cpu_ns);
  facts.run_delay_ns += double(batch.fetch_run_delay_ns);
  facts.collate_ns += double(std::min(batch.collate_ns, batch.fetch.length()));
  facts.io_ns += double(std::min(std::max(batch.fetch_io_ns, batch.fetch_blocked_ns), batch.fetch.length()));
  facts.bytes_read += batch.bytes_read;
  facts.disk_bytes += batch.disk_bytes;
  facts.opens += batch.opens;
  facts.reads += batch.reads;
  facts.major_faults += double(batch.major_faults);
  facts.is_counted |= batch.reads > 0 || batch.opens > 0;
}

// From the batches whose size was recorded to all of them.
void estimate_sizes(const model::Process& process, uint32_t loader, InputFacts& facts) {
  double sized = 0;
  for (const model::LoaderEpoch& epoch : process.epochs) {
    if (epoch.loader != loader) continue;
    for (const Batch& batch : epoch.batches) {
      if (batch.fetch.length() <= 0 || (batch.bytes == 0 && batch.tensors == 0)) continue;
      ++sized;
      facts.tensor_bytes += double(batch.bytes);
      facts.tensors += double(batch.tensors);
    }
  }
  if (sized == 0) return;
  for (double* sum : {&facts.tensor_bytes, &facts.tensors}) *sum *= double(facts.batches) / sized;
}

// Extrapolates to samples whose size was not recorded.
void add_shape(const Batch& batch, double& first_length, InputFacts::Shapes& shapes) {
  if (batch.samples_seen == 0) return;
  const double samples = double(batch.samples);
  const double elements = double(batch.sample_elements) * samples / double(batch.samples_seen);
  const double padded = double(batch.padded_elements), length = padded / samples;
  if (shapes.batches++ == 0) first_length = length;
  shapes.is_one_length &= length == first_length;
  shapes.samples += samples;
  shapes.elements += std::min(elements, padded);
  shapes.padded += padded;
  shapes.to_longest += std::min(double(batch.longest_sample) * samples, padded);
  // Squares are smallest if all samples have the mean length (Jensen): a lower bound.
  shapes.squares_least += std::min(elements, padded) * std::min(elements, padded) / samples;
  shapes.squares_padded += padded * length;
}

// Only complete epochs: one that ended early read less than the next one may.
void add_epoch(const model::LoaderEpoch& epoch, const model::Loader& loader, InputFacts& facts) {
  InputFacts::Epoch sums;
  for (const Batch& batch : epoch.batches) {
    if (batch.fetch.length() <= 0) continue;
    ++sums.batches;
    sums.bytes_read += batch.bytes_read;
    sums.disk_bytes += batch.disk_bytes;
    sums.io_ns += double(std::max(batch.fetch_io_ns, batch.fetch_blocked_ns));
  }
  const bool is_whole = loader.batches <= 0 || sums.batches >= size_t(loader.batches);
  if (sums.batches > 0 && is_whole) facts.epochs.push_back(sums);
}

// The recorded calls of one thread inside the fetches of this loader.
class FetchCalls {
 public:
  FetchCalls(const model::Run& run, const model::Process& rank, InputFacts& facts)
      : run_(run), rank_(rank), facts_(facts) {}

  void add(const model::Thread& thread, const std::vector<Ns>& fetches) {
    Ns fetch_end = 0, io_end = 0;
    for (const HostCall& call : thread.calls) {
      if (call.op_class == OpClass::Fetch && std::binary_search(fetches.begin(), fetches.end(), call.begin))
        fetch_end = std::max(fetch_end, call.end);
      if (call.begin >= fetch_end || call.begin < io_end) continue;
      add_call(thread, call, io_end);
    }
  }

  void finish() {
    for (const auto& [text, ns] : by_mount_) {
      if (ns <= facts_.mount_ns) continue;
      facts_.mount_ns = ns;
      facts_.mount = mount_of(text);
    }
  }

 private:
  void add_call(const model::Thread& thread, const HostCall& call, Ns& io_end) {
    const double ns = double(call.end - call.begin);
    switch (call.op_class) {
      case OpClass::Open:
      case OpClass::Stat:
        facts_.open_ns += ns;
        break;
      case OpClass::Read:
        facts_.read_ns += ns;
        break;
      case OpClass::Receive:
        facts_.receive_ns += ns;
        break;
      case OpClass::Poll:
      case OpClass::Wait:
        facts_.shared_wait_ns += ns;
        io_end = call.end;
        return;
      default:
        return;
    }
    io_end = call.end;
    if (call.detail >= thread.io_details.size()) return;
    const uint32_t text = thread.io_details[call.detail].path();
    if (text == 0 || call.op_class == OpClass::Receive) return;
    by_mount_[text] += ns;
    const model::Mount* mount = mount_of(text);
    if (mount && mount->is_remote) facts_.remote_ns += ns;
  }

  const model::Mount* mount_of(uint32_t text) {
    const auto [known, is_new] = mounts_.emplace(text, nullptr);
    if (!is_new) return known->second;
    const auto name = run_.texts.find(text);
    if (name == run_.texts.end()) return nullptr;
    for (const model::Mount& mount : rank_.mounts)
      if (mount.point == name->second) known->second = &mount;
    return known->second;
  }

  const model::Run& run_;
  const model::Process& rank_;
  InputFacts& facts_;
  std::map<uint32_t, double> by_mount_;
  std::map<uint32_t, const model::Mount*> mounts_;
};

// The parts of the workers' fetches that lie in an interval.
void add_fetches_in(const model::Process& process, uint32_t loader, model::TimeSpan when, InputFacts& facts) {
  for (const model::LoaderEpoch& epoch : process.epochs) {
    if (epoch.loader != loader || epoch.workers.empty()) continue;
    for (const Batch& batch : epoch.batches) {
      const Ns inside = std::min(batch.fetch.end, when.end) - std::max(batch.fetch.begin, when.begin);
      if (inside <= 0) continue;
      const double share = double(inside) / double(batch.fetch.length());
      facts.sampled_batches += share;
      facts.sampled_fetch_cpu_ns += double(batch.fetch_cpu_ns) * share;
    }
  }
}

void add_machine(const model::Process& process, uint32_t loader, model::TimeSpan when, InputFacts& facts) {
  const model::MachineSample* first = nullptr;
  const model::MachineSample* last = nullptr;
  for (const model::MachineSample& sample : process.machine_samples) {
    if (sample.time < when.begin || sample.time > when.end) continue;
    if (!first) first = &sample;
    last = &sample;
    const uint64_t available = sample.memory_available_bytes;
    if (available == 0) continue;
    facts.memory_available_bytes =
        facts.memory_available_bytes ? std::min(facts.memory_available_bytes, available) : available;
  }
  if (!first || last->time <= first->time) return;
  const double wall = double(last->time - first->time);
  facts.sampled_worker_cpu_ns = model::cpu_time(process, {first->time, last->time}).workers_ns;
  add_fetches_in(process, loader, {first->time, last->time}, facts);
  facts.disk_busy_share = std::clamp(double(last->disk_busy_ns - first->disk_busy_ns) / wall, 0.0, 1.0);
  if (last->disk_read_bytes > first->disk_read_bytes)
    facts.disk_bytes_s = double(last->disk_read_bytes - first->disk_read_bytes) / wall * 1e9;
}

}  // namespace

InputFacts input_facts(const model::Run& run, const attribute::RankAttribution& rank) {
  InputFacts facts;
  const model::Process& process = run.processes.at(rank.process);
  const uint32_t loader = predict::main_loader(run, rank);
  if (loader == kNone) return facts;

  std::map<uint32_t, std::vector<Ns>> fetches;  // process -> when its fetches for this loader began
  model::TimeSpan when{0, 0};
  std::vector<double> transfers;
  double first_length = 0;
  for (const model::LoaderEpoch& epoch : process.epochs) {
    if (epoch.loader != loader) continue;
    for (const Batch& batch : epoch.batches) {
      const bool has_worker = batch.worker < epoch.workers.size();
      add_batch(batch, facts);
      add_shape(batch, first_length, facts.shapes);
      if (batch.fetch.length() <= 0) continue;
      if (const auto taken = transfer_ns(batch); taken && has_worker) transfers.push_back(*taken);
      fetches[has_worker ? epoch.workers[batch.worker].process : rank.process].push_back(batch.fetch.begin);
      when.begin = when.begin == 0 ? batch.fetch.begin : std::min(when.begin, batch.fetch.begin);
      when.end = std::max(when.end, batch.fetch.end);
    }
    add_epoch(epoch, process.loaders[loader], facts);
  }
  estimate_sizes(process, loader, facts);
  facts.transfer_ns = lowest_decile(std::move(transfers));
  FetchCalls calls(run, process, facts);
  for (auto& [from, begins] : fetches) {
    if (from >= run.processes.size()) continue;
    std::sort(begins.begin(), begins.end());
    for (const model::Thread& thread : run.processes[from].threads) calls.add(thread, begins);
  }
  calls.finish();
  add_machine(process, loader, when, facts);
  return facts;
}

}  // namespace gpuwatch::advise
