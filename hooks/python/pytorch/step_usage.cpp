// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/pytorch/step_usage.h"

#include <sys/resource.h>

#include "hooks/libc/io_counts.h"
#include "libinject/base/clock.h"
#include "libinject/base/compiler.h"
#include "libinject/base/syscall.h"
#include "libinject/context/run_delay.h"
#include "libinject/runtime/fork_epoch.h"

namespace gpuwatch::hooks::python {

namespace {

constexpr uint64_t kPeriodNs = 5'000'000;

struct Counters {
  uint64_t wall_ns = 0;  // 0: never taken
  uint64_t cpu_ns = 0;
  uint64_t run_delay_ns = 0;
  uint64_t disk_blocks = 0;  // of 512 bytes
  libc::IoTotals io;
  uint32_t major_faults = 0;
  uint32_t epoch = 0;  // a forked child starts with no reading
};
GW_TLS Counters t_last;

Counters take(uint64_t wall_ns) noexcept {
  Counters now;
  now.wall_ns = wall_ns;
  now.cpu_ns = base::thread_cpu_ns();
  now.run_delay_ns = context::thread_run_delay_ns();
  rusage usage;
  if (base::raw_syscall(SYS_getrusage, RUSAGE_THREAD, base::address(&usage)) == 0) {
    now.major_faults = static_cast<uint32_t>(usage.ru_majflt);
    now.disk_blocks = static_cast<uint64_t>(usage.ru_inblock);
  }
  now.io = libc::io_totals();
  now.epoch = runtime::epoch();
  return now;
}

uint32_t capped(uint64_t value) noexcept {
  return value < UINT32_MAX ? static_cast<uint32_t>(value) : UINT32_MAX;
}

}  // namespace

void leave_step(const record::Scope& scope, uint8_t flags, uint32_t optimizer) noexcept {
  const uint64_t wall_ns = base::monotonic_ns();
  const bool is_first = t_last.wall_ns == 0 || t_last.epoch != runtime::epoch();
  if (!is_first && wall_ns - t_last.wall_ns < kPeriodNs) {
    record::leave(scope, flags, optimizer, 0);
    return;
  }
  const Counters last = t_last;
  const Counters now = t_last = take(wall_ns);
  if (is_first) {
    record::leave(scope, flags, optimizer, 0);
    return;
  }
  const trace::CpuDetail cpu(now.cpu_ns - last.cpu_ns, now.run_delay_ns - last.run_delay_ns,
                             now.major_faults - last.major_faults, 0);
  const trace::IoCounts io(now.io.bytes_read - last.io.bytes_read,
                           capped((now.disk_blocks - last.disk_blocks) / 2),
                           capped(base::ns_of_ticks(now.io.io_ticks - last.io.io_ticks) / 1000),
                           now.io.opens - last.io.opens, now.io.reads - last.io.reads);
  static_assert(carries<trace::CpuDetail>(Op::python_optimizer_step));
  record::leave(scope, flags, optimizer, 0, cpu, io);
}

}  // namespace gpuwatch::hooks::python
