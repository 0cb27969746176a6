// SPDX-License-Identifier: Apache-2.0
#include "libinject/context/sampler.h"

#include <sys/resource.h>

#include <cstring>

#include "libinject/base/clock.h"
#include "libinject/base/syscall.h"
#include "libinject/base/text.h"
#include "libinject/context/disk.h"
#include "libinject/context/memory.h"
#include "libinject/context/run_delay.h"
#include "libinject/context/topology.h"
#include "libinject/context/workers.h"
#include "libinject/machine/cgroup.h"
#include "libinject/machine/pressure.h"
#include "libinject/machine/proc_text.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/config.h"

namespace gpuwatch::context {

constinit std::atomic<uint64_t> g_next_sample{UINT64_MAX};

namespace {

constexpr uint64_t kPeriodNs = 1'000'000'000;
// While a recording is young, so that one of two seconds has more than the two samples that a figure takes:
// of a job of 1.8 s only one fell among the steps, and the CPU time of its workers' helper threads was not
// known.
constexpr uint64_t kFirstPeriodNs = 250'000'000;
constexpr uint32_t kFirstSamples = 40;
// A sample that takes longer than 1 ms (hundreds of workers, a slow driver) is taken less often: never more
// than 0.1 % of the thread that takes it.
constexpr uint64_t kPeriodsOfCost = 1000;
constexpr uint64_t kUserTickNs = 10'000'000;  // procfs counts in USER_HZ, 100 on every x86-64 kernel
constexpr uint64_t kPageBytes = 4096;
constexpr machine::Roots kRoots;

// Where to look, found when recording starts; read by whoever takes the sample.
constinit machine::CpuLimit g_cpu_limit;
constinit machine::MemoryLimit g_memory_limit;
constinit machine::PressureFiles g_pressure;
constinit BusiestDisk g_disk;
constinit bool g_has_swap = false;
constinit SampleSource g_sources[4]{};
constinit std::atomic<uint32_t> g_samples{0};

void read_machine_cpu(trace::SampleFields* sample) noexcept {
  char text[512];  // its first line is all we want
  if (base::read_file("/proc/stat", text, sizeof text) <= 0 || std::strncmp(text, "cpu ", 4) != 0) return;
  const char* at = text + 4;
  uint64_t field[8];  // user nice system idle iowait irq softirq steal
  uint64_t total = 0;
  for (auto& value : field) total += value = machine::take_number(at);
  sample->cpu_total_ns = total * kUserTickNs;
  sample->cpu_idle_ns = (field[3] + field[4]) * kUserTickNs;
  sample->cpu_steal_ns = field[7] * kUserTickNs;
}

uint64_t read_rss_bytes() noexcept {
  char text[128];
  if (base::read_file("/proc/self/statm", text, sizeof text) <= 0) return 0;
  const char* at = text;
  machine::skip_words(at, 1);
  return machine::take_number(at) * kPageBytes;
}

void read_process(trace::SampleFields* sample) noexcept {
  timespec cpu = {};
  base::raw_syscall(SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, base::address(&cpu));
  sample->cpu_ns = static_cast<uint64_t>(cpu.tv_sec) * 1000000000ull + static_cast<uint64_t>(cpu.tv_nsec);
  sample->run_delay_ns = thread_run_delay_ns();
  rusage usage = {};
  if (base::raw_syscall(SYS_getrusage, RUSAGE_SELF, base::address(&usage)) == 0) {
    sample->major_faults = static_cast<uint64_t>(usage.ru_majflt);
    sample->minor_faults = static_cast<uint64_t>(usage.ru_minflt);
    sample->system_ns = as_ns(usage.ru_stime);
  }
  sample->rss_bytes = read_rss_bytes();
  uint32_t cpu_number = 0;
  base::raw_syscall(SYS_getcpu, base::address(&cpu_number));
  sample->cpu = cpu_number;
  sample->cpu_mhz = read_cpu_mhz(kRoots, cpu_number);
}

void read_children(trace::SampleFields* sample) noexcept {
  const WorkerSums workers = read_workers(kRoots);
  sample->children_cpu_ns = workers.cpu_ns;
  sample->children_run_delay_ns = workers.run_delay_ns;
  sample->children_threads = workers.threads;
  sample->children_minor_faults = workers.minor_faults;
  sample->children_system_ns = workers.system_ns;
  sample->other_children_cpu_ns = read_other_children_cpu_ns(kRoots);
  sample->ended_children_cpu_ns = read_ended_children_cpu_ns();
}

void read_limits(trace::SampleFields* sample) noexcept {
  const machine::Throttling throttling = machine::read_throttling(g_cpu_limit);
  sample->throttled_ns = throttling.time_ns;
  sample->throttled_count = throttling.periods;
  sample->psi_cpu_ns = machine::read_pressure_ns(g_pressure.cpu);
  sample->psi_memory_ns = machine::read_pressure_ns(g_pressure.memory);
  sample->psi_io_ns = machine::read_pressure_ns(g_pressure.io);
}

void read_memory(trace::SampleFields* sample) noexcept {
  const uint64_t machine = read_machine_memory(kRoots).available_bytes;
  const uint64_t below_limit = machine::read_memory_below_limit(g_memory_limit);
  sample->memory_available_bytes = machine < below_limit ? machine : below_limit;
  if (g_has_swap) sample->swap_in_bytes = read_swap_in_bytes(kRoots);
  sample->shm_used_bytes = read_room("/dev/shm").used_bytes;
}

void put_cpu_facts() noexcept {
  record::put_fact("machine::cgroup_version", machine::cgroup_version(kRoots));
  g_cpu_limit = {};
  machine::find_cpu_limit(kRoots, &g_cpu_limit);
  if (g_cpu_limit.quota_us) {  // in CPUs, with two decimals
    const uint64_t hundredths = g_cpu_limit.quota_us * 100 / g_cpu_limit.period_us;
    base::Text<32> text;
    text.add(hundredths / 100).add('.').add(hundredths % 100, 2);
    record::put_fact("cpu_quota", text.c_str());
  } else {
    record::put_fact("cpu_quota", "none");
  }
  Affinity affinity;
  read_affinity(&affinity);
  if (affinity.count) {
    record::put_fact("cpu_affinity", affinity.count);
    record::put_fact("cpu_list", affinity.list.c_str());
  }
  base::Text<2048> nodes;
  if (const uint32_t count = read_numa_nodes(kRoots, &nodes)) {
    record::put_fact("numa_nodes", count);
    record::put_fact("numa_cpus", nodes.c_str());
  }
  g_pressure = {};
  machine::find_pressure(kRoots, &g_pressure);
  record::put_fact("psi_scope", g_pressure.scope);
}

void put_memory_facts() noexcept {
  const MachineMemory memory = read_machine_memory(kRoots);
  if (memory.total_bytes) record::put_fact("memory_bytes", memory.total_bytes);
  record::put_fact("swap_bytes", memory.swap_bytes);
  g_has_swap = memory.swap_bytes != 0;
  g_memory_limit = {};
  machine::find_memory_limit(kRoots, &g_memory_limit);
  if (g_memory_limit.tightest_bytes) record::put_fact("memory_limit_bytes", g_memory_limit.tightest_bytes);
  if (const uint64_t shm = read_room("/dev/shm").bytes) record::put_fact("shm_bytes", shm);
  if (const uint64_t page_ns = measure_shared_page_ns()) record::put_fact("shared_page_ns", page_ns);
}

}  // namespace

void on_recording() noexcept {
  if (!runtime::config().is_on(runtime::Source::kSystem)) {
    record::put_source("system", {trace::SourceState::Off});
    return;
  }
  record::put_source("system", {trace::SourceState::On});
  put_cpu_facts();
  put_memory_facts();
  g_samples.store(0, std::memory_order_relaxed);
  g_next_sample.store(0, std::memory_order_relaxed);
  take_sample(base::ticks());
}

void add_sample_source(SampleSource source) noexcept {
  for (auto& place : g_sources) {
    if (place) continue;
    place = source;
    return;
  }
}

GW_COLD void take_sample(uint64_t now) noexcept {
  if (!record::is_recording()) return;
  uint64_t due = g_next_sample.load(std::memory_order_relaxed);
  if (now < due || due == UINT64_MAX) return;
  const uint64_t period_ns =
      g_samples.load(std::memory_order_relaxed) < kFirstSamples ? kFirstPeriodNs : kPeriodNs;
  if (!g_next_sample.compare_exchange_strong(due, now + base::ticks_of_ns(period_ns)))
    return;  // another thread's
  g_samples.fetch_add(1, std::memory_order_relaxed);
  const uint64_t cpu_begin_ns = base::thread_cpu_ns();
  trace::SampleFields sample;
  sample.process = record::process_ordinal();
  sample.ticks = now;
  read_process(&sample);
  read_children(&sample);
  read_limits(&sample);
  read_machine_cpu(&sample);
  read_memory(&sample);
  g_disk.read(kRoots);
  sample.disk_busy_ns = g_disk.busy_ns();
  sample.disk_read_bytes = g_disk.read_bytes();
  record::put(sample);
  record::sample_clocks(nullptr);
  record::write_losses();
  for (const SampleSource source : g_sources) {
    if (source) source(now);
  }
  const uint64_t least_ns = kPeriodsOfCost * (base::thread_cpu_ns() - cpu_begin_ns);
  if (least_ns > period_ns) g_next_sample.store(now + base::ticks_of_ns(least_ns), std::memory_order_relaxed);
}

}  // namespace gpuwatch::context
