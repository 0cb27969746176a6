// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/instances.h"

#include <algorithm>
#include <map>
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

void rename(Process& process, uint32_t from, uint32_t to) {
  for (Thread& thread : process.threads) {
    for (HostCall& call : thread.calls) {
      if (names_loader(call.op_class) && call.correlation_or_object == from) call.correlation_or_object = to;
    }
  }
}

// Forked workers write into their parent's file, with its ids.
void rename_everywhere(Run& run, uint32_t consumer, ProcessTables& tables, uint32_t from, uint32_t to) {
  rename(run.processes[consumer], from, to);
  for (Process& process : run.processes) {
    if (process.parent == consumer) rename(process, from, to);
  }
  for (WorkerLink& link : tables.workers) {
    if (link.loader == from) link.loader = to;
  }
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
      rename_everywhere(run, i, *tables[i], loaders[later].id, first->id);
      loaders.erase(loaders.begin() + static_cast<ptrdiff_t>(later));
    }
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
