// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/instances.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

namespace gpuwatch::model {
namespace {

using trace::OpClass;

constexpr size_t kMostJoined = 256;  // entries looked at: each costs a walk over the process's calls

struct Taken {
  Ns time;
  uint32_t loader;
  bool operator<(const Taken& other) const { return time < other.time; }
};

auto settings(const Loader& l) {
  return std::tie(l.class_name, l.dataset, l.location, l.start_method, l.sampler, l.num_workers, l.batch_size,
                  l.prefetch_factor, l.batches, l.pin_memory, l.persistent_workers, l.in_order, l.drop_last,
                  l.framework, l.code, l.stages);
}

bool are_alike(const Loader& a, const Loader& b) {
  return settings(a) == settings(b);
}

// Batches and begins of epochs of the two, in order of time.
std::vector<Taken> events_of(const Process& process, uint32_t a, uint32_t b, OpClass op_class) {
  std::vector<Taken> events;
  for (const Thread& thread : process.threads) {
    for (const HostCall& call : thread.calls) {
      const uint32_t loader = call.correlation_or_object;
      if (call.op_class == op_class && (loader == a || loader == b)) events.push_back({call.begin, loader});
    }
  }
  std::sort(events.begin(), events.end());
  return events;
}

// Between two epochs' begins only the one that began is asked.
bool follow_each_other(const Process& process, uint32_t a, uint32_t b) {
  const auto starts = events_of(process, a, b, OpClass::LoaderStart);
  const auto nexts = events_of(process, a, b, OpClass::LoaderNext);
  size_t start = 0;
  for (const Taken& next : nexts) {
    while (start + 1 < starts.size() && starts[start + 1].time <= next.time) ++start;
    if (start >= starts.size() || starts[start].time > next.time || starts[start].loader != next.loader)
      return false;
  }
  return !nexts.empty();
}

using Names = std::unordered_map<uint32_t, uint32_t>;  // loader id -> the one that it is joined to

void rename(Process& process, const Names& names) {
  for (Thread& thread : process.threads) {
    for (HostCall& call : thread.calls) {
      if (!names_loader(call.op_class)) continue;
      if (const auto name = names.find(call.correlation_or_object); name != names.end())
        call.correlation_or_object = name->second;
    }
  }
}

// Forked workers write into their parent's file, with its ids.
void rename_everywhere(Run& run, uint32_t consumer, ProcessTables& tables, const Names& names) {
  rename(run.processes[consumer], names);
  for (Process& process : run.processes) {
    if (process.parent == consumer) rename(process, names);
  }
  for (WorkerLink& link : tables.workers) {
    if (const auto name = names.find(link.loader); name != names.end()) link.loader = name->second;
  }
}

// From its first batch to its last.
std::map<uint32_t, TimeSpan> reading_times(const Process& process) {
  std::map<uint32_t, TimeSpan> times;
  for (const Thread& thread : process.threads) {
    for (const HostCall& call : thread.calls) {
      if (call.op_class != OpClass::LoaderNext) continue;
      const auto [time, is_new] = times.emplace(call.correlation_or_object, TimeSpan{call.begin, call.end});
      time->second.begin = std::min(time->second.begin, call.begin);
      time->second.end = std::max(time->second.end, call.end);
    }
  }
  return times;
}

std::set<Ns> optimizer_steps(const Process& process) {
  std::set<Ns> steps;
  for (const Thread& thread : process.threads)
    for (const HostCall& call : thread.calls)
      if (call.op_class == OpClass::OptimizerStep) steps.insert(call.begin);
  return steps;
}

// Their lengths may differ: the clients of federated learning have more data and less.
bool are_of_one_place(Loader a, const Loader& b) {
  a.batches = b.batches;
  return !b.location.empty() && are_alike(a, b);
}

// The loaders of the process that an earlier one is made again as. Those that live on keep their workers.
Names remade_loaders(const Process& process) {
  const auto times = reading_times(process);
  const auto steps = optimizer_steps(process);
  Names names;
  std::vector<const Loader*> kept;
  for (const auto& loader : process.loaders) {
    const auto time = times.find(loader.id);
    if (time == times.end() || loader.persistent_workers == 1) continue;
    const auto step = steps.upper_bound(time->second.begin);
    if (step == steps.end() || *step > time->second.end) continue;  // an evaluation reads it
    const auto first = std::ranges::find_if(kept, [&](const Loader* before) {
      return are_of_one_place(*before, loader) && follow_each_other(process, before->id, loader.id);
    });
    if (first == kept.end())
      kept.push_back(&loader);
    else
      names.emplace(loader.id, (*first)->id);
  }
  return names;
}

// A script that makes a DataLoader in each epoch, fold or round has one loader whose workers start each time.
void join_remade(Run& run, uint32_t process, ProcessTables& tables) {
  auto& loaders = run.processes[process].loaders;
  if (loaders.size() < 2 || loaders.size() > kMostJoined) return;
  const Names names = remade_loaders(run.processes[process]);
  if (names.empty()) return;
  rename_everywhere(run, process, tables, names);
  for (Loader& loader : loaders)
    loader.remade +=
        uint32_t(std::ranges::count(names, loader.id, [](const auto& name) { return name.second; }));
  std::erase_if(loaders, [&](const Loader& loader) { return names.contains(loader.id); });
}

}  // namespace

void join_instances(Run& run, const std::vector<ProcessTables*>& tables) {
  size_t looked_at = 0;
  for (uint32_t i = 0; i < run.processes.size(); ++i) {
    auto& loaders = run.processes[i].loaders;
    for (size_t later = 0; later < loaders.size() && looked_at < kMostJoined;) {
      const auto end = loaders.begin() + static_cast<ptrdiff_t>(later);
      const auto first =
          loaders[later].instance == 0 ? end : std::find_if(loaders.begin(), end, [&](const Loader& l) {
            return are_alike(l, loaders[later]);
          });
      looked_at += loaders[later].instance > 0;
      if (first == end || !follow_each_other(run.processes[i], first->id, loaders[later].id)) {
        ++later;
        continue;
      }
      rename_everywhere(run, i, *tables[i], {{loaders[later].id, first->id}});
      loaders.erase(loaders.begin() + static_cast<ptrdiff_t>(later));
    }
    join_remade(run, i, *tables[i]);
  }
}

std::vector<uint32_t> first_instances(const Process& process) {
  std::vector<uint32_t> first(process.loaders.size());
  std::map<decltype(settings(Loader())), uint32_t> known;
  for (uint32_t i = 0; i < first.size(); ++i) {
    const Loader& loader = process.loaders[i];
    first[i] = i;
    if (loader.instance == 0) {
      known.insert_or_assign(settings(loader), i);
    } else if (const auto found = known.find(settings(loader)); found != known.end()) {
      first[i] = found->second;
    }
  }
  return first;
}

}  // namespace gpuwatch::model
