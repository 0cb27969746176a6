// SPDX-License-Identifier: Apache-2.0
// Life of recording in one process: dormant until evidence, then a file; a forked child joins its parent's
// file under an ordinal of its own; an end that was seen is written down.
#include <sched.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "libinject/base/errno_guard.h"
#include "libinject/base/futex_lock.h"
#include "libinject/base/log.h"
#include "libinject/base/syscall.h"
#include "libinject/record/recorder.h"
#include "libinject/record/run_directory.h"
#include "libinject/record/space.h"
#include "libinject/record/tables.h"
#include "libinject/record/thread_name.h"
#include "libinject/record/thread_recorder.h"
#include "libinject/runtime/config.h"
#include "libinject/runtime/fork_epoch.h"
#include "libinject/trace/layout.h"

namespace gpuwatch::record {
namespace {

using namespace trace;

constinit base::FutexLock g_life_lock;
constinit uint32_t g_pid = 0;
constinit uint32_t g_pid_epoch = 0;
constinit std::atomic<uint32_t> g_joined_epoch{0};  // the epoch whose Process table is written
constinit uint32_t g_ordinal = 0;
constinit bool g_on_exit_registered = false;
constinit StartFunction g_file_start[16] = {};
RunPlace* g_place = nullptr;  // leaked: children copy their Process table's texts from it

uint32_t cpus_allowed() noexcept {
  cpu_set_t set;
  const long bytes = base::raw_syscall(SYS_sched_getaffinity, 0, sizeof set, base::address(&set));
  if (bytes <= 0) return 0;
  uint32_t count = 0;
  for (long i = 0; i < bytes; ++i)
    count += static_cast<uint32_t>(__builtin_popcount(reinterpret_cast<uint8_t*>(&set)[i]));
  return count;
}

int first_number(std::initializer_list<const char*> names) noexcept {
  for (const char* name : names)
    if (const int number = environment_number(name); number >= 0) return number;
  return -1;
}

// torchrun; Open MPI, MPICH and Intel's; srun, whose variable a process of another launcher may inherit.
int rank_from_environment() noexcept {
  return first_number({"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"});
}

void write_process(uint32_t parent_ordinal) noexcept {
  ProcessFields fields;
  fields.ordinal = g_ordinal;
  fields.pid = current_pid();
  fields.parent_pid = static_cast<uint32_t>(base::raw_syscall(SYS_getppid));
  fields.parent_ordinal = parent_ordinal;
  fields.tick_source = static_cast<uint8_t>(base::g_ticks_are_tsc ? TickSource::Tsc : TickSource::Monotonic);
  const uint64_t started_ago =
      parent_ordinal == kNoParent ? base::monotonic_ns() - base::process_start().monotonic_ns : 0;
  fields.start_ticks = parent_ordinal == kNoParent ? base::process_start().ticks : base::ticks();
  fields.start_realtime_ns = base::realtime_ns() - started_ago;
  char executable[1024];
  const ssize_t n = base::sys_readlink("/proc/self/exe", executable, sizeof executable - 1);
  executable[n > 0 ? n : 0] = 0;
  fields.host = intern_path(g_place->host.c_str());
  fields.script = intern_path(g_place->script.c_str());
  fields.executable = intern_path(executable);
  fields.run_id = intern(g_place->run_id.c_str());
  const char* user = std::getenv("USER");
  fields.user = intern(user ? user : "");
  fields.rank = rank_from_environment();
  fields.local_rank = first_number({"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"});
  fields.world_size = first_number({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"});
  fields.cpu_count = cpus_allowed();
  put(fields);
}

void write_start_sample() noexcept {
  const base::ClockPair start = base::process_start();
  ClockSampleFields fields;
  fields.process = g_ordinal;
  fields.ticks = start.ticks;
  fields.monotonic_ns = start.monotonic_ns;
  fields.bracket_ns = static_cast<uint32_t>(start.bracket_ns);
  fields.realtime_ns = base::realtime_ns() - (base::monotonic_ns() - start.monotonic_ns);
  put(fields);
}

constexpr char kUnseenForks[] =
    "this kernel refuses MADV_WIPEONFORK: a child made by a bare clone or fork system call, without libc's "
    "fork(), is taken for its parent, and records of both may be missing";

void at_exit(int code, void*) {
  end_process(EndReason::Exit, code);
}

void complain_about_config() noexcept {
  base::Text<1000> line;
  for (const auto& [name, value] : runtime::config().complaints) {
    if (!name) break;
    line.add(line.size() ? ", " : "ignoring ").add(name, std::strcspn(name, "="));
    if (value)
      line.add('=').add(value).add(" (not valid, the default is used)");
    else
      line.add(" (no such setting)");
  }
  if (line.size()) base::say(line.add("; `gpuwatch doctor` lists the settings").c_str());
}

bool refuse(const char* what, const char* where, int error) noexcept {
  base::Text<1000> line;
  line.add("not recording: cannot ").add(what).add(' ').add(where).add(" (");
  switch (error) {
    case EACCES:
    case EPERM:
      line.add("permission denied");
      break;
    case EROFS:
      line.add("read-only file system");
      break;
    case ENOSPC:
      line.add("the last 5% of a disk, at least 1 GiB, is left to the job");
      break;
    case EDQUOT:
      line.add("disk quota used up");
      break;
    case EFBIG:
      line.add("file size limit of this process, ulimit -f");
      break;
    case ENOENT:
      line.add("its parent directory does not exist and cannot be made");
      break;
    case ENOMEM:
      line.add("memory limit of this process, ulimit -v");
      break;
    default:
      line.add("error ").add(static_cast<uint64_t>(error));
      break;
  }
  line.add("); set GPUWATCH_OUT to another directory");
  base::say(line.c_str());
  g_state.store(State::kOff, std::memory_order_relaxed);
  return false;
}

bool create_file(RunPlace* place, int* error) noexcept {
  const int rank = rank_from_environment();
  const auto& config = runtime::config();
  // A process that recorded and then exec'd itself has the same pid and start time: its second file
  // gets a suffix.
  for (uint64_t attempt = 0; attempt < 100; ++attempt) {
    static base::Path path;  // 4 KiB, under the lock
    path = base::Path();
    file_path(*place, rank, attempt, &path);
    if (space::create(path.c_str(), config.file_mode, config.max_bytes, error)) {
      hand_over(path.c_str(), place->directory.c_str());
      return true;
    }
    if (*error != EEXIST) return false;
  }
  return false;
}

// Lock held, state dormant.
bool start(const char* evidence) noexcept {
  complain_about_config();
  static RunPlace place;
  g_place = &place;
  int error = 0;
  if (!find_run_place(&place, &error)) {
    return refuse("create the run directory", runtime::config().out ? runtime::config().out : "here", error);
  }
  if (place.is_first && !runtime::config().out)
    hand_over(place.directory.c_str(), runtime::config().start_directory);
  if (!create_file(&place, &error)) return refuse("write to", place.directory.c_str(), error);
  base::choose_tick_source();
  note_process_name();
  const bool sees_every_fork = runtime::start_epochs();
  begin_losses();
  g_ordinal = space::next_process();
  g_pid_epoch = 0;
  g_joined_epoch.store(runtime::epoch(), std::memory_order_release);
  g_state.store(State::kRecording, std::memory_order_release);
  write_process(kNoParent);
  write_start_sample();
  sample_clocks(nullptr);
  put_fact("evidence", evidence);
  if (!sees_every_fork) put_source("children", {SourceState::Partial, kUnseenForks});
  for (StartFunction function : g_file_start) {
    if (function) function();
  }
  g_on_exit_registered = on_exit(at_exit, nullptr) == 0;
  if (place.is_first && !runtime::config().quiet) {
    base::Text<1000> line;
    base::say_on_terminal(line.add("recording to ").add(place.directory.c_str()).c_str());
  }
  return true;
}

}  // namespace

void join_recording() noexcept {
  if (GW_LIKELY(!is_recording() || runtime::epoch() != 0)) return;
  const base::ErrnoGuard keep_errno;
  const Quiet quiet;
  join_process();
}

uint32_t process_ordinal() noexcept {
  join_recording();
  return g_ordinal;
}

uint32_t current_pid() noexcept {
  const uint32_t epoch = runtime::epoch();
  if (g_pid && g_pid_epoch == epoch && epoch) return g_pid;
  g_pid = static_cast<uint32_t>(base::sys_getpid());
  g_pid_epoch = epoch;
  return g_pid;
}

bool is_this_process() noexcept {
  return current_pid() == static_cast<uint32_t>(base::sys_getpid());
}

void on_file_start(StartFunction function) noexcept {
  for (auto& slot : g_file_start) {
    if (slot) continue;
    slot = function;
    return;
  }
}

GW_COLD bool activate(const char* evidence) noexcept {
  if (!is_dormant()) return is_recording();
  const base::ErrnoGuard keep_errno;
  const Quiet quiet;
  const base::FutexGuard guard(g_life_lock, static_cast<uint32_t>(base::sys_getpid()));
  if (!is_dormant()) return is_recording();
  if (runtime::config().disabled) {
    g_state.store(State::kOff, std::memory_order_relaxed);
    return false;
  }
  return start(evidence);
}

GW_COLD bool join_process() noexcept {
  uint32_t epoch = runtime::epoch();
  if (GW_LIKELY(epoch && g_joined_epoch.load(std::memory_order_acquire) == epoch)) return true;
  if (!epoch) epoch = runtime::enter_epoch();
  g_pid = 0;
  const base::FutexGuard guard(g_life_lock, current_pid());
  if (g_joined_epoch.load(std::memory_order_acquire) == epoch) return true;
  const uint32_t parent = g_ordinal;
  g_ordinal = space::next_process();
  begin_losses();
  // Set before the tables are written: writing them comes back here.
  g_joined_epoch.store(epoch, std::memory_order_release);
  write_process(parent);
  sample_clocks(nullptr);
  return true;
}

void end_process(EndReason reason, int code) noexcept {
  if (g_state.load(std::memory_order_relaxed) == State::kDormant) return;
  const base::ErrnoGuard keep_errno;
  const Quiet quiet;
  // A child that recorded nothing (fork and exec, fork and _exit) leaves no trace of its end either.
  if (!runtime::epoch() || g_joined_epoch.load(std::memory_order_acquire) != runtime::epoch()) return;
  if (!is_recording()) return;
  write_losses();
  sample_clocks(nullptr);
  ProcessEndFields fields;
  fields.process = g_ordinal;
  fields.reason = static_cast<uint8_t>(reason);
  fields.code = code;
  fields.ticks = base::ticks();
  put(fields);
}

}  // namespace gpuwatch::record
