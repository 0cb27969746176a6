// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/instances.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

namespace gpuwatch::model {
namespace {

using trace::OpClass;

constexpr size_t kMostJoined = 256;  // entries looked at: each costs a walk over its epochs and batches

auto settings(const Loader& l) {
  return std::tie(l.class_name, l.dataset, l.location, l.start_method, l.sampler, l.num_workers, l.batch_size,
                  l.prefetch_factor, l.batches, l.pin_memory, l.persistent_workers, l.in_order, l.drop_last,
                  l.framework, l.code, l.stages);
}

bool are_alike(const Loader& a, const Loader& b) {
  return settings(a) == settings(b);
}

// When each loader began its epochs and was asked for batches. One walk over the process's calls: a script
// that makes a loader in each of 250 rounds has as many pairs to compare, and may have 20 million calls.
class LoaderEvents {
 public:
  explicit LoaderEvents(const Process& process) {
    for (const Thread& thread : process.threads) {
      for (const HostCall& call : thread.calls) {
        if (call.op_class == OpClass::LoaderStart)
          events_[call.correlation_or_object].starts.push_back(call.begin);
        if (call.op_class == OpClass::LoaderNext)
          events_[call.correlation_or_object].nexts.push_back(call.begin);
      }
    }
    for (auto& [loader, events] : events_) {
      std::ranges::sort(events.starts);
      std::ranges::sort(events.nexts);
    }
  }

  // Between two epochs' begins only the one that began is asked.
  bool follow_each_other(uint32_t a, uint32_t b) {
    const std::vector<Taken> starts = merged(a, b, &Events::starts), nexts = merged(a, b, &Events::nexts);
    size_t start = 0;
    for (const Taken& next : nexts) {
      while (start + 1 < starts.size() && starts[start + 1].time <= next.time) ++start;
      if (start >= starts.size() || starts[start].time > next.time || starts[start].loader != next.loader)
        return false;
    }
    return !nexts.empty();
  }

  void join(uint32_t from, uint32_t to) {
    const Events joined = std::move(events_[from]);
    Events& all = events_[to];
    for (const auto member : {&Events::starts, &Events::nexts}) {
      const auto middle = static_cast<ptrdiff_t>((all.*member).size());
      (all.*member).insert((all.*member).end(), (joined.*member).begin(), (joined.*member).end());
      std::ranges::inplace_merge(all.*member, (all.*member).begin() + middle);
    }
  }

 private:
  struct Events {
    std::vector<Ns> starts, nexts;  // sorted
  };
  struct Taken {
    Ns time;
    uint32_t loader;
  };

  std::vector<Taken> merged(uint32_t a, uint32_t b, std::vector<Ns> Events::*member) {
    std::vector<Taken> result;
    for (const uint32_t loader : {a, b})
      for (const Ns time : events_[loader].*member) result.push_back({time, loader});
    const auto middle = static_cast<ptrdiff_t>((events_[a].*member).size());
    std::ranges::inplace_merge(result, result.begin() + middle, {}, &Taken::time);
    return result;
  }

  std::unordered_map<uint32_t, Events> events_;  // by Loader::id
};

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

// Further iterators over a loader, which leave the list.
Names join_iterators(Process& process, size_t& looked_at) {
  auto& loaders = process.loaders;
  std::optional<LoaderEvents> events;
  Names names;
  for (size_t later = 0; later < loaders.size() && looked_at < kMostJoined;) {
    const auto end = loaders.begin() + static_cast<ptrdiff_t>(later);
    const auto first =
        loaders[later].instance == 0 ? end : std::find_if(loaders.begin(), end, [&](const Loader& l) {
          return are_alike(l, loaders[later]);
        });
    looked_at += loaders[later].instance > 0;
    if (first != end && !events) events.emplace(process);
    if (first == end || !events->follow_each_other(first->id, loaders[later].id)) {
      ++later;
      continue;
    }
    events->join(loaders[later].id, first->id);
    names.emplace(loaders[later].id, first->id);
    loaders.erase(loaders.begin() + static_cast<ptrdiff_t>(later));
  }
  return names;
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
  LoaderEvents events(process);
  Names names;
  std::vector<const Loader*> kept;
  for (const auto& loader : process.loaders) {
    const auto time = times.find(loader.id);
    if (time == times.end() || loader.persistent_workers == 1) continue;
    const auto step = steps.upper_bound(time->second.begin);
    if (step == steps.end() || *step > time->second.end) continue;  // an evaluation reads it
    const auto first = std::ranges::find_if(kept, [&](const Loader* before) {
      return are_of_one_place(*before, loader) && events.follow_each_other(before->id, loader.id);
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
    if (const Names names = join_iterators(run.processes[i], looked_at); !names.empty())
      rename_everywhere(run, i, *tables[i], names);
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
