// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/roles.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <tuple>
#include <unordered_map>

#include "analyzer/model/ranges.h"

namespace gpuwatch::model {
namespace {

using trace::OpClass;

const HostCall* worker_start(const Process& process) {
  for (const auto& thread : process.threads) {
    for (const auto& call : thread.calls) {
      if (call.op_class == OpClass::WorkerStart) return &call;
    }
  }
  return nullptr;
}

struct ThreadEvidence {
  uint64_t nexts = 0, optimizer_steps = 0, launches = 0;
  Ns first_launch = 0, last_launch = 0;
  bool reports_steps = false;
};

ThreadEvidence evidence_of(const Thread& thread) {
  ThreadEvidence evidence;
  for (const auto& call : thread.calls) {
    evidence.nexts += call.op_class == OpClass::LoaderNext;
    evidence.optimizer_steps += call.op_class == OpClass::OptimizerStep;
    if (!launches_kernels(call.op_class)) continue;
    if (evidence.launches++ == 0) evidence.first_launch = call.begin;
    evidence.last_launch = call.begin;
  }
  return evidence;
}

// Whether the process's first thread launches to the end, and not only here and there. XLA's threads launch
// more while they try kernels out (472 launches against 314 in a run of JAX on an H200), autograd's as many.
bool is_launching_main(const Process& process, uint32_t index, const std::vector<ThreadEvidence>& threads) {
  constexpr uint64_t kLeastShare =
      10;  // a tenth, of the busiest thread's launches and of the time at the end
  if (process.threads[index].tid != process.pid || threads[index].launches == 0) return false;
  uint64_t most = 0;
  Ns first = threads[index].first_launch, last = 0;
  for (const ThreadEvidence& thread : threads) {
    if (thread.launches == 0) continue;
    most = std::max(most, thread.launches);
    first = std::min(first, thread.first_launch);
    last = std::max(last, thread.last_launch);
  }
  return threads[index].launches * kLeastShare >= most &&
         threads[index].last_launch >= last - (last - first) / Ns{kLeastShare};
}

// Where the optimizer steps, whoever takes the batches: a loader iterated by another thread is iterated ahead
// of training. Without an optimizer, a consumer that also launches kernels; else a consumer; else the one
// that says of itself that it takes steps; else the process's first thread if it launches; else where the
// launches are.
uint32_t training_thread(const Run& run, const Process& process) {
  std::vector<ThreadEvidence> threads;
  for (const Thread& thread : process.threads) {
    threads.push_back(evidence_of(thread));
    threads.back().reports_steps = !find_range_steps(run, thread).empty();
  }
  uint32_t best = kNone;
  std::tuple<bool, bool, bool, uint64_t, bool, uint64_t, bool, uint64_t> best_rank{};
  for (uint32_t i = 0; i < threads.size(); ++i) {
    const ThreadEvidence& e = threads[i];
    const bool steps = e.optimizer_steps > 0, takes = e.nexts > 0;
    if (!takes && !steps && e.launches == 0 && !e.reports_steps) continue;
    const std::tuple rank{
        steps,   takes && (steps || e.launches > 0),     takes,     e.optimizer_steps, e.reports_steps,
        e.nexts, is_launching_main(process, i, threads), e.launches};
    if (best == kNone || rank > best_rank) {
      best = i;
      best_rank = rank;
    }
  }
  return best;
}

// The thread that was seen computing, though no call of it shows a step; it may have no record at all.
uint32_t computing_thread(Process& process) {
  const auto fact = process.facts.find("computing_thread");
  if (fact == process.facts.end()) return kNone;
  const auto tid = static_cast<uint32_t>(std::strtoul(fact->second.c_str(), nullptr, 10));
  auto thread = std::ranges::find(process.threads, tid, &Thread::tid);
  if (thread == process.threads.end()) {
    process.threads.emplace_back().tid = tid;
    thread = std::prev(process.threads.end());
  }
  return static_cast<uint32_t>(thread - process.threads.begin());
}

// When the process with this pid started, in CLOCK_BOOTTIME ns; -1 when there is none or it is a zombie.
Ns start_of_live_process(uint32_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t name_end = text.rfind(')');  // the name may hold anything, also ')'
  if (name_end == std::string::npos || name_end + 2 >= text.size() || text[name_end + 2] == 'Z') return -1;
  constexpr int kStateField = 3, kStartField = 22;
  size_t at = name_end + 2;
  for (int field = kStateField; field < kStartField && at != std::string::npos; ++field)
    at = text.find(' ', at + 1);
  if (at == std::string::npos) return -1;
  return static_cast<Ns>(std::strtoull(text.c_str() + at, nullptr, 10)) *
         (1'000'000'000 / sysconf(_SC_CLK_TCK));
}

Ns now(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return Ns{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

void link_parents(Run& run) {
  std::unordered_multimap<uint32_t, uint32_t> by_pid;
  for (uint32_t i = 0; i < run.processes.size(); ++i) by_pid.emplace(run.processes[i].pid, i);
  for (uint32_t i = 0; i < run.processes.size(); ++i) {
    Process& child = run.processes[i];
    if (child.parent != kNone || child.parent_pid == 0) continue;
    // Of several with that pid, the last one that started before its child did.
    const auto [first, last] = by_pid.equal_range(child.parent_pid);
    for (auto it = first; it != last; ++it) {
      const Process& parent = run.processes[it->second];
      if (it->second == i || parent.host != child.host || parent.start > child.start) continue;
      if (child.parent == kNone || parent.start > run.processes[child.parent].start)
        child.parent = it->second;
    }
  }
}

void complete_worker_links(const Run& run, const std::vector<ProcessTables*>& tables) {
  for (const Process& process : run.processes) {
    if (process.parent == kNone) continue;
    const HostCall* start = worker_start(process);
    if (!start) continue;
    auto& owner = *tables[process.parent];
    const auto names_it = [&](const WorkerLink& link) { return link.pid == process.pid; };
    if (std::any_of(owner.workers.begin(), owner.workers.end(), names_it)) continue;
    uint32_t loader = start->correlation_or_object;
    if (!owner.loaders.count(loader)) {  // a spawned worker has a file, and ids, of its own
      const auto& loaders = run.processes[process.parent].loaders;
      if (loaders.size() != 1) continue;
      loader = loaders[0].id;
    }
    owner.workers.push_back({loader, start->argument, process.pid});
  }
}

void find_training_threads(Run& run) {
  for (auto& process : run.processes) {
    if (process.worker_of != kNone) continue;
    process.training_thread = training_thread(run, process);
    if (process.training_thread == kNone) process.training_thread = computing_thread(process);
  }
}

void separate_ranks(Run& run) {
  std::vector<bool> is_done(run.processes.size());  // with its ancestors; a damaged trace may hold a circle
  for (const Process& process : run.processes) {
    if (!process.is_rank()) continue;
    for (uint32_t parent = process.parent; parent != kNone && !is_done[parent];
         parent = run.processes[parent].parent) {
      is_done[parent] = true;
      for (MachineSample& sample : run.processes[parent].machine_samples)
        sample.other_children_cpu_ns = sample.ended_children_cpu_ns = 0;
    }
  }
}

bool is_fed_by_other_threads(const Process& process) {
  bool is_taken = false;
  for (uint32_t i = 0; i < process.threads.size(); ++i) {
    const bool takes = evidence_of(process.threads[i]).nexts > 0;
    if (takes && i == process.training_thread) return false;
    is_taken |= takes;
  }
  return is_taken;
}

void find_running(Run& run) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const Ns since_boot = now(CLOCK_BOOTTIME) - now(CLOCK_MONOTONIC);  // time asleep
  for (auto& process : run.processes) {
    process.alive_until = process.last_seen;
    if (process.end_state != EndState::kKilledOrRunning || process.host != host) continue;
    const Ns started = start_of_live_process(process.pid);
    // Recording starts after the process did; a later owner of the pid started after the last record.
    process.is_running = started >= 0 && started - since_boot <= process.start + 1'000'000'000;
    if (process.is_running) process.alive_until = std::max(process.last_seen, now(CLOCK_MONOTONIC));
  }
}

}  // namespace gpuwatch::model
