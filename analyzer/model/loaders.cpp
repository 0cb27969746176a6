// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/loaders.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "libinject/trace/layout.h"

namespace gpuwatch::model {
namespace {

using trace::OpClass;

constexpr Ns kEndless = std::numeric_limits<Ns>::max();

// Nothing is believed that could not be: a batch of fewer elements than its samples was cut, not padded.
void describe_shape(const Thread& thread, const HostCall& call, Batch& batch) {
  if (call.detail >= thread.shape_details.size()) return;
  const trace::ShapeDetail& shape = thread.shape_details[call.detail];
  if (shape.samples() == 0 || shape.samples() > call.argument || shape.elements() > shape.padded()) return;
  batch.sample_elements = shape.elements();
  batch.padded_elements = shape.padded();
  batch.longest_sample = shape.longest();
  batch.samples_seen = shape.samples();
  batch.samples = call.argument;
}

// What the calls nested in a fetch say about it.
void describe_fetch(const Thread& thread, size_t fetch, Batch& batch) {
  const HostCall& call = thread.calls[fetch];
  batch.fetch = {call.begin, call.end};
  if (call.detail != kNone) {
    const auto& cpu = thread.cpu_details[call.detail];
    batch.fetch_cpu_ns = static_cast<Ns>(std::min<uint64_t>(cpu.cpu_ns(), kFarNs));
    batch.fetch_run_delay_ns = static_cast<Ns>(std::min<uint64_t>(cpu.run_delay_ns(), kFarNs));
    batch.major_faults = cpu.major_faults();
    batch.thread_count = cpu.thread_count();
  }
  if (const trace::IoCounts* io = io_counts_of(thread, call)) {
    batch.fetch_io_ns = Ns{io->io_us()} * 1000;
    batch.bytes_read = io->bytes_read();
    batch.disk_bytes = uint64_t{io->disk_kib()} << 10;
    batch.opens = io->opens();
    batch.reads = io->reads();
  }
  Ns blocked_until = call.begin, collated_until = call.begin;  // nested calls count once
  for (size_t i = fetch + 1; i < thread.calls.size() && thread.calls[i].begin < call.end; ++i) {
    const HostCall& inner = thread.calls[i];
    const Ns end = std::min(inner.end, call.end);
    if (inner.op_class == OpClass::Collate) {
      batch.collate_ns += std::max<Ns>(0, end - std::max(inner.begin, collated_until));
      collated_until = std::max(collated_until, end);
      if (inner.argument == 0) continue;
      batch.tensors = trace::batch_tensors(inner.argument);
      batch.bytes = trace::batch_bytes(inner.argument);
    } else if (inner.op_class == OpClass::BatchShape) {
      describe_shape(thread, inner, batch);
    } else if (reads_input(inner.op_class)) {
      // Sleeping is a choice of the dataset's code (a test of a slow transform, a rate limit), not I/O; a
      // Wait or Poll may wait for anything.
      batch.fetch_blocked_ns += std::max<Ns>(0, end - std::max(inner.begin, blocked_until));
      blocked_until = std::max(blocked_until, end);
    }
  }
}

// Fetches of one thread that lie in each other, in order of their begin. A dataset may read another loader
// within its own fetch; what is deeper is a damaged trace's, of which each would be described by all that
// follow.
class NestedFetches {
 public:
  bool may_describe(const HostCall& fetch) {
    constexpr size_t kDeepest = 4;
    std::erase_if(ends_, [&](Ns end) { return end <= fetch.begin; });
    if (ends_.size() >= kDeepest) return false;
    ends_.push_back(fetch.end);
    return true;
  }

 private:
  std::vector<Ns> ends_;
};

// Reads the consumer's side: one walk over its threads.
class ConsumerWalk {
 public:
  explicit ConsumerWalk(Process& process) : process_(process) {
    for (size_t i = 0; i < process.loaders.size(); ++i) loader_of_.emplace(process.loaders[i].id, i);
  }
  void walk(uint32_t thread_index);
  void finish();

 private:
  struct Building {
    LoaderEpoch epoch;
    std::unordered_map<uint32_t, uint32_t> position;  // batch index -> place in epoch.batches
    std::vector<uint32_t> none;                       // indices that were answered without a batch
  };
  struct Progress {
    size_t epoch = SIZE_MAX;                       // index into building_
    std::unordered_map<uint32_t, uint32_t> nexts;  // thread -> next() calls
  };

  size_t loader(uint32_t id);
  Building& start_epoch(size_t loader, TimeSpan start);
  Building& current(const HostCall& call);
  static Batch& batch(Building& building, uint32_t index);

  Process& process_;
  std::unordered_map<uint32_t, size_t> loader_of_;
  std::vector<Progress> progress_;  // by loader
  std::vector<Building> building_;
};

size_t ConsumerWalk::loader(uint32_t id) {
  const auto [found, is_new] = loader_of_.emplace(id, process_.loaders.size());
  if (is_new) process_.loaders.emplace_back().id = id;  // its description was lost
  if (progress_.size() <= found->second) progress_.resize(found->second + 1);
  return found->second;
}

ConsumerWalk::Building& ConsumerWalk::start_epoch(size_t loader, TimeSpan start) {
  progress_[loader].epoch = building_.size();
  auto& building = building_.emplace_back();
  building.epoch.loader = static_cast<uint32_t>(loader);
  building.epoch.start = start;
  return building;
}

// The epoch that a record belongs to. Without a LoaderStart (recording began later), the first record starts
// it.
ConsumerWalk::Building& ConsumerWalk::current(const HostCall& call) {
  const size_t which = loader(call.correlation_or_object);
  if (progress_[which].epoch == SIZE_MAX) return start_epoch(which, {call.begin, call.begin});
  return building_[progress_[which].epoch];
}

Batch& ConsumerWalk::batch(Building& building, uint32_t index) {
  const auto [found, is_new] = building.position.emplace(index, building.epoch.batches.size());
  if (is_new) building.epoch.batches.emplace_back().index = index;
  return building.epoch.batches[found->second];
}

void ConsumerWalk::walk(uint32_t thread_index) {
  const Thread& thread = process_.threads[thread_index];
  const HostCall* next = nullptr;  // the last next() that returned a batch
  NestedFetches fetches;
  for (size_t i = 0; i < thread.calls.size(); ++i) {
    const HostCall& call = thread.calls[i];
    switch (call.op_class) {
      case OpClass::LoaderStart:
        start_epoch(loader(call.correlation_or_object), {call.begin, call.end});
        break;
      case OpClass::IndexSent: {
        Batch& sent = batch(current(call), call.argument);
        sent.sent = call.begin;
        if (call.detail != kNone) sent.worker = thread.call_details[call.detail].stream();
        break;
      }
      case OpClass::BatchReceived:
        if (call.failed()) {  // the worker's iterable is exhausted: there was no batch
          current(call).none.push_back(call.argument);
        } else {
          batch(current(call), call.argument).received = call.begin;
        }
        break;
      case OpClass::LoaderNext:
        if (call.failed()) break;
        batch(current(call), call.argument).next = {call.begin, call.end};
        ++progress_[loader(call.correlation_or_object)].nexts[thread_index];
        next = &call;
        break;
      case OpClass::Fetch:  // without workers: by the consumer itself
        if (next && call.begin < next->end && fetches.may_describe(call))
          describe_fetch(thread, i, batch(current(*next), next->argument));
        break;
      default:
        break;
    }
  }
}

void ConsumerWalk::finish() {
  for (size_t i = 0; i < progress_.size(); ++i) {
    uint32_t most = 0;
    for (const auto& [thread, nexts] : progress_[i].nexts) {
      if (nexts > most || (nexts == most && thread < process_.loaders[i].thread)) {
        process_.loaders[i].thread = thread;
        most = nexts;
      }
    }
  }
  for (auto& building : building_) {
    auto& batches = building.epoch.batches;
    std::sort(building.none.begin(), building.none.end());
    std::erase_if(batches, [&](const Batch& batch) {
      return std::binary_search(building.none.begin(), building.none.end(), batch.index);
    });
    std::sort(batches.begin(), batches.end(),
              [](const Batch& a, const Batch& b) { return a.index < b.index; });
    process_.epochs.push_back(std::move(building.epoch));
  }
  std::stable_sort(process_.epochs.begin(), process_.epochs.end(),
                   [](const LoaderEpoch& a, const LoaderEpoch& b) { return a.start.begin < b.start.begin; });
}

// When a batch that will be pinned comes into being: its index is sent, or next() begins to make it.
Ns asked_for(const Batch& batch) {
  return batch.sent != 0 ? batch.sent : batch.next.begin;
}

// Joins pinned batches with those of the epochs. Each epoch numbers from 0, and a pin thread may still finish
// what the epoch before had asked for: a span belongs to the last epoch that had asked for its index by then.
void match_pinned(Process& process) {
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Batch*>> asked;  // (loader id, index), in time order
  for (auto& epoch : process.epochs) {
    for (auto& batch : epoch.batches)
      asked[{process.loaders[epoch.loader].id, batch.index}].push_back(&batch);
  }
  for (const auto& thread : process.threads) {
    for (const auto& call : thread.calls) {
      if (call.op_class != OpClass::PinBatch || call.failed()) continue;
      const auto found = asked.find({call.correlation_or_object, call.argument});
      if (found == asked.end()) continue;
      const auto after =
          std::partition_point(found->second.begin(), found->second.end(),
                               [&](const Batch* batch) { return asked_for(*batch) <= call.begin; });
      if (after != found->second.begin()) (*(after - 1))->pinned = {call.begin, call.end};
    }
  }
}

Ns first_sent(const LoaderEpoch& epoch) {
  Ns first = kEndless;
  for (const auto& batch : epoch.batches) {
    if (batch.sent != 0) first = std::min(first, batch.sent);
  }
  return first == kEndless ? epoch.start.begin : first;
}

// Where each fetch of a worker process lies.
struct FetchAt {
  const Thread* thread;
  size_t call;
  const HostCall& get() const { return thread->calls[call]; }
};

std::vector<FetchAt> fetches_of(const Process& worker) {
  std::vector<FetchAt> fetches;
  for (const auto& thread : worker.threads) {
    NestedFetches nested;
    for (size_t i = 0; i < thread.calls.size(); ++i) {
      if (thread.calls[i].op_class == OpClass::Fetch && nested.may_describe(thread.calls[i]))
        fetches.push_back({&thread, i});
    }
  }
  std::stable_sort(fetches.begin(), fetches.end(),
                   [](const FetchAt& a, const FetchAt& b) { return a.get().begin < b.get().begin; });
  return fetches;
}

// The batches that an epoch asked each of its workers for, in the order of the worker's queue.
std::vector<std::vector<Batch*>> tasks_of(LoaderEpoch& epoch) {
  std::vector<std::vector<Batch*>> tasks(epoch.workers.size());
  for (auto& batch : epoch.batches) {
    if (batch.worker != kNone) tasks[batch.worker].push_back(&batch);
  }
  for (auto& queue : tasks) {
    std::stable_sort(queue.begin(), queue.end(),
                     [](const Batch* a, const Batch* b) { return a->sent < b->sent; });
  }
  return tasks;
}

// Joins tasks and fetches of one epoch. A worker numbers its fetches from 0 in each epoch, which bridges
// those whose records were lost; numbers that do not grow are not believed, and the n-th fetch is taken for
// the n-th task.
void join(std::span<Batch* const> tasks, std::span<const FetchAt> fetches) {
  bool ordinals_grow = true;
  for (size_t i = 1; i < fetches.size(); ++i) {
    ordinals_grow = ordinals_grow && fetches[i].get().argument > fetches[i - 1].get().argument;
  }
  for (size_t i = 0; i < fetches.size(); ++i) {
    const size_t task = ordinals_grow ? fetches[i].get().argument : i;
    if (task < tasks.size()) describe_fetch(*fetches[i].thread, fetches[i].call, *tasks[task]);
  }
}

uint64_t worker_key(uint32_t loader, uint32_t worker) {
  return uint64_t{loader} << 32 | worker;
}

Ns start_of_loop(const Process& worker) {
  for (const auto& thread : worker.threads) {
    for (const auto& call : thread.calls) {
      if (call.op_class == OpClass::WorkerStart) return call.begin;
    }
  }
  return 0;
}

}  // namespace

LoaderEpochs::LoaderEpochs(Run& run) : run_(run) {
  for (size_t i = 0; i < run.processes.size(); ++i) {
    by_pid_.emplace(run.processes[i].pid, static_cast<uint32_t>(i));
  }
}

// Pids are used again; a worker is a child of its consumer, or at least on its host.
uint32_t LoaderEpochs::process_of(uint32_t pid, const Process& consumer) const {
  uint32_t best = kNone;
  int best_score = -1;
  const auto [first, last] = by_pid_.equal_range(pid);
  for (auto it = first; it != last; ++it) {
    const Process& process = run_.processes[it->second];
    if (&process == &consumer || process.host != consumer.host) continue;
    const int score = process.parent_pid == consumer.pid ? 1 : 0;
    if (score > best_score || (score == best_score && it->second < best)) {
      best = it->second;
      best_score = score;
    }
  }
  return best;
}

LoaderEpochs::Candidates LoaderEpochs::candidates_of(const Process& consumer,
                                                     std::span<const WorkerLink> links) const {
  Candidates candidates;
  std::unordered_map<uint32_t, uint32_t> by_pid;  // each is looked for once, however many links name it
  for (const auto& link : links) {
    const auto [known, is_new] = by_pid.try_emplace(link.pid, kNone);
    if (is_new) known->second = process_of(link.pid, consumer);
    const uint32_t process = known->second;
    const Ns start = process == kNone ? 0 : run_.processes[process].start;
    OfWorker& of_worker = candidates[worker_key(link.loader, link.worker)];
    of_worker.all.push_back({link.pid, process, start});
    of_worker.has_traceless |= process == kNone;
  }
  return candidates;
}

// Without persistent workers each epoch has processes of its own under the same worker indices: the last one
// that started before the next epoch began. Where one left no trace, its start is not known, and they are
// counted.
Worker LoaderEpochs::choose(const OfWorker* candidates, uint32_t worker, size_t nth_epoch, Ns until) {
  if (!candidates) return {worker, 0, kNone, 0};
  const Candidate* chosen = &candidates->all.front();
  if (candidates->has_traceless) {
    chosen = &candidates->all[std::min(nth_epoch, candidates->all.size() - 1)];
  } else {
    for (const auto& candidate : candidates->all) {
      if (candidate.start < until && candidate.start >= chosen->start) chosen = &candidate;
    }
  }
  if (chosen->process == kNone) return {worker, chosen->pid, kNone, 0};
  const auto [start, is_new] = loop_starts_.try_emplace(chosen->process, 0);
  if (is_new) start->second = start_of_loop(run_.processes[chosen->process]);
  return {worker, chosen->pid, chosen->process, start->second};
}

// Fills epoch.workers with the workers that the epoch used, and turns Batch::worker from PyTorch's index into
// a place there. Where no IndexSent was seen, PyTorch's round robin is assumed.
void LoaderEpochs::assign_workers(Process& consumer, const Candidates& candidates) {
  std::unordered_map<uint32_t, size_t> epochs_seen;  // by loader
  std::unordered_map<uint32_t, Ns> next_start;       // by loader
  std::vector<Ns> until(consumer.epochs.size(), kEndless);
  for (size_t i = consumer.epochs.size(); i-- > 0;) {
    const auto& epoch = consumer.epochs[i];
    if (const auto next = next_start.find(epoch.loader); next != next_start.end()) until[i] = next->second;
    next_start[epoch.loader] = epoch.start.begin;
  }
  for (size_t i = 0; i < consumer.epochs.size(); ++i) {
    auto& epoch = consumer.epochs[i];
    const Loader& loader = consumer.loaders[epoch.loader];
    const size_t nth_epoch = epochs_seen[epoch.loader]++;
    const bool none_seen = std::all_of(epoch.batches.begin(), epoch.batches.end(),
                                       [](const Batch& batch) { return batch.worker == kNone; });
    std::unordered_map<uint32_t, uint32_t> place;
    for (auto& batch : epoch.batches) {
      if (none_seen && loader.num_workers > 0)
        batch.worker = batch.index % static_cast<uint32_t>(loader.num_workers);
      if (batch.worker == kNone) continue;
      const auto [found, is_new] = place.emplace(batch.worker, static_cast<uint32_t>(epoch.workers.size()));
      if (is_new) {
        const auto known = candidates.find(worker_key(loader.id, batch.worker));
        epoch.workers.push_back(
            choose(known == candidates.end() ? nullptr : &known->second, batch.worker, nth_epoch, until[i]));
      }
      batch.worker = found->second;
    }
  }
}

void LoaderEpochs::match_fetches(Process& consumer) {
  struct Use {
    LoaderEpoch* epoch;
    uint32_t place;
  };
  std::unordered_map<uint32_t, std::vector<Use>>
      uses;  // worker process -> epochs that it served, in time order
  std::vector<std::vector<std::vector<Batch*>>> tasks;  // by epoch, then place
  std::vector<Ns> sent_first;                           // by epoch
  for (auto& epoch : consumer.epochs) {
    tasks.push_back(tasks_of(epoch));
    sent_first.push_back(first_sent(epoch));
    for (uint32_t place = 0; place < epoch.workers.size(); ++place) {
      if (epoch.workers[place].process != kNone)
        uses[epoch.workers[place].process].push_back({&epoch, place});
    }
  }
  for (const auto& [worker, epochs] : uses) {
    const auto fetches = fetches_of(run_.processes[worker]);
    run_.processes[worker].worker_of = static_cast<uint32_t>(&consumer - run_.processes.data());
    size_t first = 0;
    for (size_t i = 0; i < epochs.size(); ++i) {
      // A persistent worker first finishes what the epoch before had asked for, and the reset waits for that:
      // such a fetch ends before the first index of the new epoch is sent. (The index is noted just after it
      // went out; a dataset faster than that note is told by its numbers beginning anew.)
      const bool is_last = i + 1 == epochs.size();
      const Ns until = is_last ? kEndless : sent_first[size_t(epochs[i + 1].epoch - consumer.epochs.data())];
      size_t last = first;
      while (last < fetches.size() && fetches[last].get().end <= until) {
        const bool begins_anew =
            last > first && fetches[last].get().argument <= fetches[last - 1].get().argument;
        if (begins_anew && !is_last) break;
        ++last;
      }
      const size_t epoch = static_cast<size_t>(epochs[i].epoch - consumer.epochs.data());
      join(tasks[epoch][epochs[i].place], std::span(fetches).subspan(first, last - first));
      first = last;
    }
  }
}

void LoaderEpochs::build(uint32_t consumer_index, std::span<const WorkerLink> links) {
  Process& consumer = run_.processes[consumer_index];
  ConsumerWalk walk(consumer);
  for (uint32_t i = 0; i < consumer.threads.size(); ++i) walk.walk(i);
  walk.finish();
  assign_workers(consumer, candidates_of(consumer, links));
  match_fetches(consumer);
  match_pinned(consumer);
}

}  // namespace gpuwatch::model
