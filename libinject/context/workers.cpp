// SPDX-License-Identifier: Apache-2.0
#include "libinject/context/workers.h"

#include <atomic>

#include "libinject/base/compiler.h"
#include "libinject/base/syscall.h"
#include "libinject/context/sampler.h"
#include "libinject/machine/proc_text.h"
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

}  // namespace

bool add_process(const machine::Roots& roots, uint32_t pid, WorkerSums* sums) noexcept {
  char text[512];
  if (base::read_file(file_of(roots, pid, "stat").c_str(), text, sizeof text) <= 0) return false;
  const char* at = std::strrchr(text, ')');  // the name before it may hold blanks and brackets
  if (!at) return false;
  machine::skip_words(at, 12);
  const uint64_t user = machine::take_number(at);
  sums->cpu_ns += (user + machine::take_number(at)) * kUserTickNs;
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
}

}  // namespace gpuwatch::context
