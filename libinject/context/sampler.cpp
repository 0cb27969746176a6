// SPDX-License-Identifier: Apache-2.0
#include "libinject/context/sampler.h"

#include <sys/resource.h>
#include <sys/vfs.h>

#include <cstring>

#include "libinject/base/clock.h"
#include "libinject/base/syscall.h"
#include "libinject/base/text.h"
#include "libinject/context/cgroup.h"
#include "libinject/context/proc_text.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/config.h"
#include "libinject/runtime/fork_epoch.h"

namespace gpuwatch::context {

constinit std::atomic<uint64_t> g_next_sample{UINT64_MAX};

namespace {

constexpr uint64_t kPeriodNs = 1'000'000'000;
constexpr uint64_t kUserTickNs = 10'000'000;  // procfs counts in USER_HZ, 100 on every x86-64 kernel
constexpr uint64_t kPageBytes = 4096;
constexpr size_t kMaxChildren = 256;

constinit CpuLimit g_cpu_limit{};
constinit std::atomic<uint32_t> g_children[kMaxChildren]{};
constinit std::atomic<uint32_t> g_children_epoch{0};  // of the process whose children these are

void read_machine_cpu(trace::SampleFields* sample) noexcept {
  char text[512];  // its first line is all we want
  if (base::read_file("/proc/stat", text, sizeof text) <= 0 || std::strncmp(text, "cpu ", 4) != 0) return;
  const char* at = text + 4;
  uint64_t field[8];  // user nice system idle iowait irq softirq steal
  uint64_t total = 0;
  for (auto& value : field) total += value = take_number(at);
  sample->cpu_total_ns = total * kUserTickNs;
  sample->cpu_idle_ns = (field[3] + field[4]) * kUserTickNs;
  sample->cpu_steal_ns = field[7] * kUserTickNs;
}

uint64_t read_run_delay_ns() noexcept {
  char text[128];
  if (base::read_file("/proc/thread-self/schedstat", text, sizeof text) <= 0) return 0;
  const char* at = text;
  skip_words(at, 1);  // time on the CPU; then time runnable and waiting for one
  return take_number(at);
}

uint64_t read_rss_bytes() noexcept {
  char text[128];
  if (base::read_file("/proc/self/statm", text, sizeof text) <= 0) return 0;
  const char* at = text;
  skip_words(at, 1);
  return take_number(at) * kPageBytes;
}

// User and system time of a process with all its threads; false when it is gone.
bool read_cpu_ns(uint32_t pid, uint64_t* cpu_ns) noexcept {
  base::Text<32> path;
  path.add("/proc/").add(static_cast<uint64_t>(pid)).add("/stat");
  char text[512];
  if (base::read_file(path.c_str(), text, sizeof text) <= 0) return false;
  const char* at = std::strrchr(text, ')');  // the name before it may hold blanks and brackets
  if (!at) return false;
  skip_words(at, 12);
  const uint64_t user = take_number(at);
  *cpu_ns = (user + take_number(at)) * kUserTickNs;
  return true;
}

uint64_t read_children_cpu_ns() noexcept {
  if (g_children_epoch.load(std::memory_order_relaxed) != runtime::epoch()) return 0;
  uint64_t total = 0;
  for (auto& child : g_children) {
    const uint32_t pid = child.load(std::memory_order_relaxed);
    uint64_t cpu_ns = 0;
    if (pid == 0) continue;
    if (read_cpu_ns(pid, &cpu_ns)) {
      total += cpu_ns;
    } else {
      child.store(0, std::memory_order_relaxed);
    }
  }
  return total;
}

void put_number(const char* key, uint64_t value) noexcept {
  base::Text<24> text;
  record::put_fact(key, text.add(value).c_str());
}

void put_cpu_facts() noexcept {
  find_cpu_limit(&g_cpu_limit);
  if (g_cpu_limit.quota_us) {  // in CPUs, with two decimals
    const uint64_t hundredths = g_cpu_limit.quota_us * 100 / g_cpu_limit.period_us;
    base::Text<32> text;
    text.add(hundredths / 100).add('.').add(hundredths % 100, 2);
    record::put_fact("cpu_quota", text.c_str());
  } else {
    record::put_fact("cpu_quota", "none");
  }
  uint64_t mask[1024 / 64] = {};
  const long bytes = base::raw_syscall(SYS_sched_getaffinity, 0, sizeof mask, base::address(mask));
  uint64_t count = 0;
  for (long word = 0; word < bytes / 8; ++word)
    count += static_cast<uint64_t>(__builtin_popcountll(mask[word]));
  if (count) put_number("cpu_affinity", count);
}

void put_memory_facts() noexcept {
  char text[512];
  uint64_t kib = 0;
  if (base::read_file("/proc/meminfo", text, sizeof text) > 0 && find_number(text, "MemTotal:", &kib)) {
    put_number("memory_bytes", kib * 1024);
  }
  if (const uint64_t limit = read_memory_limit_bytes()) put_number("memory_limit_bytes", limit);
  struct statfs shm;
  if (base::raw_syscall(SYS_statfs, base::address("/dev/shm"), base::address(&shm)) == 0) {
    put_number("shm_bytes", static_cast<uint64_t>(shm.f_blocks) * static_cast<uint64_t>(shm.f_bsize));
  }
}

}  // namespace

void on_recording() noexcept {
  if (!runtime::config().is_on(runtime::Source::kSystem)) {
    record::put_source("system", "off by GPUWATCH_TRACE");
    return;
  }
  record::put_source("system", "on");
  put_cpu_facts();
  put_memory_facts();
  g_next_sample.store(0, std::memory_order_relaxed);
  take_sample(base::ticks());
}

GW_COLD void watch_child(uint32_t pid) noexcept {
  const uint32_t epoch = runtime::epoch();
  if (g_children_epoch.exchange(epoch, std::memory_order_relaxed) != epoch) {
    for (auto& child : g_children) child.store(0, std::memory_order_relaxed);
  }
  for (auto& child : g_children) {
    uint32_t free = 0;
    if (child.compare_exchange_strong(free, pid, std::memory_order_relaxed)) return;
  }
}

GW_COLD void take_sample(uint64_t now) noexcept {
  if (!record::is_recording()) return;
  uint64_t due = g_next_sample.load(std::memory_order_relaxed);
  if (now < due || due == UINT64_MAX) return;
  if (!g_next_sample.compare_exchange_strong(due, now + base::ticks_of_ns(kPeriodNs)))
    return;  // another thread's
  trace::SampleFields sample;
  sample.process = record::process_ordinal();
  sample.ticks = now;
  timespec cpu = {};
  base::raw_syscall(SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, base::address(&cpu));
  sample.cpu_ns = static_cast<uint64_t>(cpu.tv_sec) * 1000000000ull + static_cast<uint64_t>(cpu.tv_nsec);
  sample.children_cpu_ns = read_children_cpu_ns();
  sample.run_delay_ns = read_run_delay_ns();
  sample.throttled_ns = read_throttled_ns(g_cpu_limit);
  read_machine_cpu(&sample);
  rusage usage = {};
  if (base::raw_syscall(SYS_getrusage, RUSAGE_SELF, base::address(&usage)) == 0) {
    sample.major_faults = static_cast<uint64_t>(usage.ru_majflt);
  }
  sample.rss_bytes = read_rss_bytes();
  record::put(sample);
  record::sample_clocks(nullptr);
}

}  // namespace gpuwatch::context
