// SPDX-License-Identifier: Apache-2.0
#include "cuda/nvml/sampler.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "cuda/nvml/api.h"
#include "libinject/base/clock.h"
#include "libinject/base/compiler.h"
#include "libinject/base/errno_guard.h"
#include "libinject/base/syscall.h"
#include "libinject/base/text.h"
#include "libinject/record/periodic_thread.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/fork_epoch.h"

namespace gpuwatch::cuda::nvml {
namespace {

constexpr int kMaxDevices = 16;  // a training process drives one, DataParallel as many as a machine has
constexpr unsigned kMaxProcesses = 64;
constexpr uint64_t kPeriodsOfCost = 1000;  // as the sampler itself: at most 0.1 % of the thread
constexpr uint32_t kPeriodMs = 500;
constexpr uint32_t kExitLimitMs = 100;  // what the job may wait for a sample when it ends

constexpr char kWithoutNvml[] = "no GPU clocks, power or utilization";

struct Known {
  bool is_looked_up = false;
  Device handle = nullptr;  // null: NVML does not know it
  unsigned clock_max_mhz = 0, pcie_generation_max = 0, pcie_width_max = 0, power_limit_default_mw = 0;
  int numa_node = -1;
  unsigned long long seen_until_microseconds = 0;  // of the last utilization sample of its processes
};

constinit Api g_api{};
constinit std::atomic<bool> g_is_wanted{false};
constinit std::atomic<bool> g_is_given_up{false};
constinit uint32_t g_epoch = 0;  // of the process that wants it
constinit bool g_is_initialised = false;
constinit uint64_t g_next = 0;  // ticks
constinit Known g_known[kMaxDevices]{};
constinit bool g_has_told_devices = false;
constinit int g_next_unused = 0;

template <class... Arguments, class... Given>
unsigned ask(Return (*function)(Device, Arguments...), Device device, Given... given) noexcept {
  unsigned value = 0;
  return function && function(device, given..., &value) == kSuccess ? value : 0;
}

// "/sys/bus/pci/devices/0000:3b:00.0/numa_node"; -1 on machines with one node, too.
int read_numa_node(const char* bus_id) noexcept {
  base::Text<128> path;
  path.add("/sys/bus/pci/devices/");
  for (const char* c = bus_id; *c; ++c) path.add(*c >= 'A' && *c <= 'F' ? static_cast<char>(*c + 32) : *c);
  path.add("/numa_node");
  char text[16];
  if (base::read_file(path.c_str(), text, sizeof text) <= 0 || text[0] < '0' || text[0] > '9') return -1;
  int node = 0;
  for (const char* c = text; *c >= '0' && *c <= '9'; ++c) node = node * 10 + (*c - '0');
  return node;
}

Known& look_up(int device) noexcept {
  Known& known = g_known[device];
  if (known.is_looked_up) return known;
  known.is_looked_up = true;
  char bus_id[32] = "";
  if (g_api.pci_bus_id(bus_id, sizeof bus_id, device) != 0) return known;
  if (g_api.handle_by_pci(bus_id, &known.handle) != kSuccess) known.handle = nullptr;
  if (!known.handle) return known;
  known.clock_max_mhz = ask(g_api.clock_max, known.handle, kClockSm);
  known.pcie_generation_max = ask(g_api.pcie_generation_max, known.handle);
  known.pcie_width_max = ask(g_api.pcie_width_max, known.handle);
  known.power_limit_default_mw = ask(g_api.power_limit_default, known.handle);
  known.numa_node = read_numa_node(bus_id);
  return known;
}

// The parent of a process; 0 when it is not to be seen.
uint32_t parent_of(uint32_t pid) noexcept {
  base::Text<32> path;
  path.add("/proc/").add(uint64_t{pid}).add("/stat");
  char text[256];
  if (base::read_file(path.c_str(), text, sizeof text) <= 0) return 0;
  const char* at = std::strrchr(text, ')');
  if (!at || std::strlen(at) < 5) return 0;
  uint32_t parent = 0;
  for (at += 4; *at >= '0' && *at <= '9'; ++at) parent = parent * 10 + static_cast<uint32_t>(*at - '0');
  return parent;
}

// Ranks that share a device are started by one launcher, or one by the other. A process that is not to be
// seen here (another container) is none of ours.
bool is_of_this_run(uint32_t pid, uint32_t own, uint32_t own_parent) noexcept {
  if (pid == own || pid == own_parent) return true;
  const uint32_t parent = parent_of(pid);
  return parent == own || (parent == own_parent && parent > 1);
}

// SM utilization of the processes that are not of this run, since the last sample. Only where this process is
// known by its pid, so that the others are the others.
void add_other_utilization(Known& known, uint32_t own, uint32_t own_parent,
                           trace::DeviceSampleFields* fields) noexcept {
  UtilizationSample samples[kMaxProcesses];
  unsigned count = kMaxProcesses;
  if (!g_api.process_utilization) return;
  const Return result =
      g_api.process_utilization(known.handle, samples, &count, known.seen_until_microseconds);
  if (result != kSuccess && result != kNotFound) return;  // not found: no process computed
  if (result == kNotFound) count = 0;
  fields->is_other_utilization_known = 1;
  for (unsigned i = 0; i < count && i < kMaxProcesses; ++i) {
    if (samples[i].microseconds > known.seen_until_microseconds)
      known.seen_until_microseconds = samples[i].microseconds;
    if (!is_of_this_run(samples[i].pid, own, own_parent)) fields->other_utilization_percent += samples[i].sm;
  }
}

// In a container NVML gives the pids of the host: then this process is not in its own list, and stands for
// one of it.
void count_others(Known& known, trace::DeviceSampleFields* fields) noexcept {
  ProcessInfo processes[kMaxProcesses];
  unsigned count = kMaxProcesses;
  if (!g_api.processes) return;
  const Return result = g_api.processes(known.handle, &count, processes);
  if (result != kSuccess && result != kInsufficientSize) return;
  const unsigned told = result == kSuccess ? (count < kMaxProcesses ? count : kMaxProcesses) : 0;
  const auto own = static_cast<uint32_t>(base::sys_getpid());
  const auto own_parent = static_cast<uint32_t>(base::raw_syscall(SYS_getppid));
  bool has_own = fields->is_unused;  // not to be subtracted there
  unsigned others = 0;
  uint64_t bytes = 0;
  for (unsigned i = 0; i < told; ++i) {
    has_own |= processes[i].pid == own;
    if (is_of_this_run(processes[i].pid, own, own_parent)) continue;
    ++others;
    if (processes[i].used_memory != ~0ull) bytes += processes[i].used_memory;
  }
  if (told < count) others = count;  // more than fit: their number alone
  fields->other_processes = has_own || others == 0 ? others : others - 1;
  fields->other_memory_bytes = has_own ? bytes : 0;
  if (has_own && !fields->is_unused && others) add_other_utilization(known, own, own_parent, fields);
}

void put_shared_fields(Known& known, trace::DeviceSampleFields* fields) noexcept {
  Memory memory;
  if (g_api.memory && g_api.memory(known.handle, &memory) == kSuccess) {
    fields->memory_used_bytes = memory.used;
    fields->memory_bytes = memory.total;
  }
  Utilization utilization;
  if (g_api.utilization && g_api.utilization(known.handle, &utilization) == kSuccess)
    fields->utilization_percent = utilization.gpu;
  count_others(known, fields);
  fields->numa_node = known.numa_node;
}

void put_device(int device, uint64_t now) noexcept {
  Known& known = look_up(device);
  if (!known.handle) return;
  trace::DeviceSampleFields fields;
  fields.process = record::process_ordinal();
  fields.ticks = now;
  fields.device = static_cast<uint32_t>(device);
  fields.sm_clock_mhz = ask(g_api.clock, known.handle, kClockSm);
  fields.sm_clock_max_mhz = known.clock_max_mhz;
  unsigned long long reasons = 0;
  if (g_api.clock_reasons && g_api.clock_reasons(known.handle, &reasons) == kSuccess)
    fields.throttle_reasons = reasons;
  fields.power_mw = ask(g_api.power, known.handle);
  fields.power_limit_mw = ask(g_api.power_limit, known.handle);
  fields.power_limit_default_mw = known.power_limit_default_mw;
  fields.temperature_c = ask(g_api.temperature, known.handle, kTemperatureGpu);
  fields.pcie_generation = ask(g_api.pcie_generation, known.handle);
  fields.pcie_generation_max = known.pcie_generation_max;
  fields.pcie_width = ask(g_api.pcie_width, known.handle);
  fields.pcie_width_max = known.pcie_width_max;
  put_shared_fields(known, &fields);
  record::put(fields);
}

// Of a visible device that this process does not use: whether anybody else does.
void put_unused_device(int device, uint64_t now) noexcept {
  Known& known = look_up(device);
  if (!known.handle) return;
  trace::DeviceSampleFields fields;
  fields.process = record::process_ordinal();
  fields.ticks = now;
  fields.device = static_cast<uint32_t>(device);
  fields.is_unused = 1;
  put_shared_fields(known, &fields);
  record::put(fields);
}

bool is_initialised() noexcept {
  if (g_is_initialised) return true;
  record::put_source("nvml",
                     {trace::SourceState::Unavailable,
                      "nvmlInit_v2 was called and did not return: no GPU clocks, power or utilization"});
  const Return result = g_api.init();
  g_is_initialised = result == kSuccess;
  g_is_given_up = !g_is_initialised;
  if (g_is_initialised) {
    record::put_source("nvml", {trace::SourceState::On});
  } else {
    base::Text<128> text;
    text.add("nvmlInit_v2 failed (error ").add(static_cast<uint64_t>(result)).add("): ").add(kWithoutNvml);
    record::put_source("nvml", {trace::SourceState::Unavailable, text.c_str()});
  }
  return g_is_initialised;
}

bool may_sample() noexcept {
  return g_is_wanted.load(std::memory_order_acquire) && g_epoch == runtime::epoch() &&
         !g_is_given_up.load(std::memory_order_relaxed);
}

bool is_in_use(int device) noexcept {
  unsigned flags = 0;
  int is_active = 0;
  return g_api.context_state(device, &flags, &is_active) == 0 && is_active;
}

// One of them with each sample: a machine has eight, and a sample of each would make samples rarer.
void sample_unused(int count, uint64_t now) noexcept {
  if (!g_has_told_devices) {
    base::Text<24> text;
    record::put_fact("cuda_devices", text.add(static_cast<uint64_t>(count)).c_str());
    g_has_told_devices = true;
  }
  for (int i = 0; i < count; ++i) {
    const int device = g_next_unused++ % count;
    if (is_in_use(device)) continue;
    put_unused_device(device, now);
    return;
  }
}

void at_exit(int, void*) noexcept;

void sample() noexcept {
  const uint64_t now = base::ticks();
  if (!may_sample() || now < g_next) return;
  int count = 0;
  if (g_api.device_count(&count) != 0) return;  // the driver is not initialised yet
  if (count > kMaxDevices) count = kMaxDevices;
  const bool is_first = !g_is_initialised;
  uint64_t begin = now;
  bool is_any_used = false;
  for (int device = 0; device < count; ++device) {
    if (!is_in_use(device)) continue;
    if (!is_initialised()) return;
    if (is_first && !is_any_used) {
      begin = base::ticks();  // to initialise takes as long as many samples
      // Exit handlers run last in, first out: the driver's, by now registered, run after ours.
      on_exit(at_exit, nullptr);
    }
    is_any_used = true;
    put_device(device, now);
  }
  if (is_any_used) sample_unused(count, now);
  g_next = now + kPeriodsOfCost * (base::ticks() - begin);
}

constinit record::PeriodicThread g_thread{0, kPeriodMs, sample};

void at_exit(int, void*) noexcept {
  g_thread.finish(kExitLimitMs);
}

}  // namespace

GW_COLD void prepare() noexcept {
  g_epoch = runtime::epoch();
  g_has_told_devices = false;
  record::put_source("nvml", {trace::SourceState::Absent, "no GPU was in use when samples were taken"});
  g_is_wanted.store(true, std::memory_order_release);
}

GW_COLD void start_sampling() noexcept {
  if (!may_sample() || g_thread.was_started()) return;
  if (!is_driver_loaded()) return;  // CUDA was called, and has not begun yet
  const base::ErrnoGuard keep_errno;
  const record::Quiet quiet;
  load(&g_api);
  if (!g_api.missing && g_thread.start()) return;
  g_is_given_up.store(true, std::memory_order_relaxed);
  base::Text<160> text;
  text.add(g_api.missing ? g_api.missing : "no thread could be started").add(": ").add(kWithoutNvml);
  record::put_source("nvml", {trace::SourceState::Absent, text.c_str()});
}

}  // namespace gpuwatch::cuda::nvml
