// SPDX-License-Identifier: Apache-2.0
#include "libinject/context/workers.h"

#include <sys/resource.h>

#include <atomic>

#include "libinject/base/compiler.h"
#include "libinject/base/syscall.h"
#include "libinject/context/sampler.h"
#include "libinject/machine/proc_text.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/fork_epoch.h"

namespace gpuwatch::context {
namespace {

constexpr size_t kMaxWorkers = 256;
constexpr uint64_t kUserTickNs = 10'000'000;  // procfs counts in USER_HZ, 100 on every x86-64 kernel

constinit std::atomic<uint32_t> g_workers[kMaxWorkers]{};
constinit std::atomic<uint32_t> g_epoch{0};  // of the process whose workers these are

machine::FilePath file_of(const machine::Roots& roots, uint32_t pid, const char* name) noexcept {
  machine::FilePath path;
  path.add(roots.proc).add('/').add(static_cast<uint64_t>(pid)).add('/').add(name);
  return path;
}

bool is_worker(uint32_t pid) noexcept {
  if (g_epoch.load(std::memory_order_relaxed) != runtime::epoch()) return false;
  for (const auto& worker : g_workers)
    if (worker.load(std::memory_order_relaxed) == pid) return true;
  return false;
}

// The processes found so far; those from `next` on have not been asked for theirs.
struct Descendants {
  static constexpr size_t kMost = 64;
  uint32_t pids[kMost];
  size_t count = 0, next = 0;
  bool is_whole = true;

  void add(uint32_t pid) noexcept {
    for (size_t i = 0; i < count; ++i)
      if (pids[i] == pid) return;
    if (count < kMost)
      pids[count++] = pid;
    else
      is_whole = false;
  }
};

void add_children(const machine::Roots& roots, uint32_t pid, uint32_t tid, Descendants* found) noexcept {
  machine::FilePath path;
  path.add(roots.proc).add('/').add(static_cast<uint64_t>(pid)).add("/task/");
  path.add(static_cast<uint64_t>(tid)).add("/children");
  char text[4096];
  ssize_t length = base::read_file(path.c_str(), text, sizeof text);
  if (length <= 0) return;
  while (length > 0 && text[length - 1] != ' ') --length;  // a number that was cut off
  text[length] = '\0';
  const char* at = text;
  while (const uint64_t child = machine::take_number(at))
    if (!is_worker(static_cast<uint32_t>(child))) found->add(static_cast<uint32_t>(child));
}

}  // namespace

uint64_t read_other_children_cpu_ns(const machine::Roots& roots) noexcept {
  const auto pid = static_cast<uint32_t>(base::raw_syscall(SYS_getpid));
  const auto tid = static_cast<uint32_t>(base::raw_syscall(SYS_gettid));
  Descendants found;
  add_children(roots, pid, pid, &found);
  if (tid != pid) add_children(roots, pid, tid, &found);
  WorkerSums sums;
  for (; found.next < found.count; ++found.next) {
    const uint32_t child = found.pids[found.next];
    add_process(roots, child, &sums);
    add_children(roots, child, child, &found);
  }
  if (!found.is_whole)
    record::lose(
        GW_INCOMPLETE "readings of the CPU time of other child processes are too low: more than 64 live", 1);
  return sums.cpu_ns;
}

uint64_t read_ended_children_cpu_ns() noexcept {
  rusage usage = {};
  if (base::raw_syscall(SYS_getrusage, RUSAGE_CHILDREN, base::address(&usage)) != 0) return 0;
  return as_ns(usage.ru_utime) + as_ns(usage.ru_stime);
}

bool add_process(const machine::Roots& roots, uint32_t pid, WorkerSums* sums) noexcept {
  char text[512];
  if (base::read_file(file_of(roots, pid, "stat").c_str(), text, sizeof text) <= 0) return false;
  const char* at = std::strrchr(text, ')');  // the name before it may hold blanks and brackets
  if (!at) return false;
  machine::skip_words(at, 8);
  sums->minor_faults += machine::take_number(at);
  ++at;
  machine::skip_words(at, 3);  // faults of ended children, major faults
  const uint64_t user = machine::take_number(at), system = machine::take_number(at);
  sums->cpu_ns += (user + system) * kUserTickNs;
  sums->system_ns += system * kUserTickNs;
  ++at;
  machine::skip_words(at, 4);  // times of children, priority, niceness
  sums->threads += static_cast<uint32_t>(machine::take_number(at));
  ++sums->workers;
  if (base::read_file(file_of(roots, pid, "schedstat").c_str(), text, sizeof text) <= 0) return true;
  at = text;
  machine::skip_words(at, 1);  // time on the CPU; then time runnable and waiting for one
  sums->run_delay_ns += machine::take_number(at);
  return true;
}

WorkerSums read_workers(const machine::Roots& roots) noexcept {
  WorkerSums sums;
  if (g_epoch.load(std::memory_order_relaxed) != runtime::epoch()) return sums;
  for (auto& worker : g_workers) {
    const uint32_t pid = worker.load(std::memory_order_relaxed);
    if (pid != 0 && !add_process(roots, pid, &sums)) worker.store(0, std::memory_order_relaxed);
  }
  return sums;
}

GW_COLD void watch_child(uint32_t pid) noexcept {
  const uint32_t epoch = runtime::epoch();
  if (g_epoch.exchange(epoch, std::memory_order_relaxed) != epoch) {
    for (auto& worker : g_workers) worker.store(0, std::memory_order_relaxed);
  }
  for (auto& worker : g_workers) {
    uint32_t free = 0;
    if (worker.compare_exchange_strong(free, pid, std::memory_order_relaxed)) return;
  }
  record::lose(GW_INCOMPLETE "DataLoader workers are not in the CPU time of workers: more than 256 live", 1);
}

}  // namespace gpuwatch::context
