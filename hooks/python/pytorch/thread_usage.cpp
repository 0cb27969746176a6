// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/pytorch/thread_usage.h"

#include <sys/resource.h>

#include <cstring>

#include "libinject/base/clock.h"
#include "libinject/base/compiler.h"
#include "libinject/base/syscall.h"
#include "libinject/context/run_delay.h"
#include "libinject/machine/proc_text.h"
#include "libinject/runtime/fork_epoch.h"

namespace gpuwatch::hooks::python {

namespace {

constexpr uint64_t kLongFetchNs = 1000000;
// Of so many fetches the first two: reading it takes some 10 us. The thread that sends batches starts after
// the first, which saw two threads where OpenMP had started one, and no contention was found.
constexpr uint32_t kThreadCountEvery = 64, kThreadCounts = 2;

GW_TLS bool t_last_was_long = true;
GW_TLS uint32_t t_fetches = 0;
GW_TLS uint32_t t_epoch = 0;  // a forked worker inherits its parent's history

void forget_parent() noexcept {
  if (t_epoch == runtime::epoch()) return;
  t_epoch = runtime::epoch();
  t_last_was_long = true;
  t_fetches = 0;
}

uint32_t thread_count() noexcept {
  char status[2048];
  if (base::read_file("/proc/self/status", status, sizeof status) <= 0) return 0;
  const char* at = std::strstr(status, "\nThreads:");
  if (!at) return 0;
  at += std::strlen("\nThreads:");
  return static_cast<uint32_t>(machine::take_number(at));
}

}  // namespace

ThreadUsage::ThreadUsage() noexcept {
  forget_parent();
  reads_slow_counters_ = t_last_was_long;
  wall_ns_ = base::monotonic_ns();
  if (reads_slow_counters_) {
    run_delay_ns_ = context::thread_run_delay_ns();
    faults_and_blocks_ = faults_and_blocks();
  }
  input_ = libc::io_totals();
  cpu_ns_ = base::thread_cpu_ns();
}

ThreadUsage::FaultsAndBlocks ThreadUsage::faults_and_blocks() noexcept {
  rusage usage;
  if (base::raw_syscall(SYS_getrusage, RUSAGE_THREAD, base::address(&usage)) != 0) return {};
  return {static_cast<uint32_t>(usage.ru_majflt), static_cast<uint32_t>(usage.ru_inblock)};
}

trace::IoCounts ThreadUsage::input_since(uint32_t blocks_read) const noexcept {
  const libc::IoTotals& now = libc::io_totals();
  const uint64_t io_us = base::ns_of_ticks(now.io_ticks - input_.io_ticks) / 1000;
  const uint32_t bounded_us = io_us < UINT32_MAX ? static_cast<uint32_t>(io_us) : UINT32_MAX;
  return trace::IoCounts(now.bytes_read - input_.bytes_read, blocks_read / 2, bounded_us,
                         now.opens - input_.opens, now.reads - input_.reads);
}

ThreadUsage::Amounts ThreadUsage::since() const noexcept {
  const uint64_t cpu_ns = base::thread_cpu_ns() - cpu_ns_;
  t_last_was_long = base::monotonic_ns() - wall_ns_ > kLongFetchNs;
  if (!reads_slow_counters_) return {trace::CpuDetail(cpu_ns, 0, 0, 0), input_since(0)};
  const FaultsAndBlocks now = faults_and_blocks();
  const trace::IoCounts io = input_since(now.blocks_read - faults_and_blocks_.blocks_read);
  const uint32_t threads = t_fetches++ % kThreadCountEvery < kThreadCounts ? thread_count() : 0;
  const uint32_t major_faults = now.major_faults - faults_and_blocks_.major_faults;
  return {trace::CpuDetail(cpu_ns, context::thread_run_delay_ns() - run_delay_ns_, major_faults, threads),
          io};
}

}  // namespace gpuwatch::hooks::python
