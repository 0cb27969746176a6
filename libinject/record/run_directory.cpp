// SPDX-License-Identifier: Apache-2.0
#include "libinject/record/run_directory.h"

#include <sys/utsname.h>
#include <time.h>

#include <cerrno>
#include <cstdlib>
#include <initializer_list>

#include "libinject/base/file_search.h"
#include "libinject/base/syscall.h"
#include "libinject/record/disk_reserve.h"
#include "libinject/runtime/config.h"
#include "libinject/trace/layout.h"

namespace gpuwatch::record {
namespace {

// Buffers of more than a page are static: recording may start on a thread with a stack of 16 KiB
// (PTHREAD_STACK_MIN), and activate() lets one thread in.

using base::read_file;

// Names become part of a path: anything but letters, digits, dot, dash and underscore is replaced.
template <size_t kCapacity>
void add_safe(base::Text<kCapacity>* to, const char* text) noexcept {
  for (; *text; ++text) {
    const char c = *text;
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '-' || c == '_';
    to->add(plain ? c : '_');
  }
}

bool looks_like_python(const char* program) noexcept {
  return !std::strncmp(base::file_name(program), "python", 6);
}

// The script of `python -u train.py`, the module of `python -m pkg.main`, else the program itself. Arguments
// beyond that are never read: they may hold tokens and private paths.
const char* script_of(int argc, char** argv) noexcept {
  if (argc < 1 || !argv || !argv[0]) return "job";
  if (!looks_like_python(argv[0])) return argv[0];
  bool is_module = false;
  for (int i = 1; i < argc && argv[i]; ++i) {
    const char* argument = argv[i];
    if (!std::strcmp(argument, "-c")) break;
    if (!std::strcmp(argument, "-m"))
      is_module = true;
    else if (!std::strcmp(argument, "-W") || !std::strcmp(argument, "-X"))
      ++i;
    else if (is_module || argument[0] != '-')
      return argument;
  }
  return argv[0];
}

char g_script[256] = "job";

struct ProcessStat {
  int parent = 0;
  uint64_t start_ticks = 0;  // since boot, in units of 10 ms
};

base::Text<64> proc_path(int pid, const char* file) noexcept {
  base::Text<64> path;
  path.add("/proc/").add(static_cast<uint64_t>(pid)).add('/').add(file);
  return path;
}

bool read_stat(int pid, ProcessStat* out) noexcept {
  char text[1024];
  if (read_file(proc_path(pid, "stat").c_str(), text, sizeof text) <= 0) return false;
  const char* p = std::strrchr(text, ')');  // the name may hold spaces and brackets
  if (!p) return false;
  // Fields after the name: state is the 3rd, ppid the 4th, starttime the 22nd.
  int field = 2;
  for (++p; *p; ++p) {
    if (*p != ' ') continue;
    ++field;
    if (field == 4) out->parent = std::atoi(p + 1);
    if (field == 22) {
      out->start_ticks = std::strtoull(p + 1, nullptr, 10);
      return true;
    }
  }
  return false;
}

// Whether the process's environ or maps, as /proc shows it, has these bytes.
bool has_bytes(int pid, const char* file, const char* wanted, size_t size) noexcept {
  static base::SearchBuffer buffer;
  return base::file_has(proc_path(pid, file).c_str(), wanted, size, buffer);
}

// The environment may have a title written over it.
bool carries_library(int pid) noexcept {
  static constexpr char kName[] = "libgpuwatch";
  return has_bytes(pid, "environ", kName, sizeof kName - 1) ||
         has_bytes(pid, "maps", kName, sizeof kName - 1);
}

// By the number of ranks that its launcher gave it: torchrun, Open MPI, MPICH. Each variable follows the NUL
// of the one before it, which tells LOCAL_WORLD_SIZE apart.
bool is_one_of_several_ranks(int pid) noexcept {
  static constexpr char kSizes[][32] = {"\0WORLD_SIZE=1", "\0OMPI_COMM_WORLD_SIZE=1", "\0PMI_SIZE=1"};
  for (const char* of_one : kSizes) {
    const size_t length = 1 + std::strlen(of_one + 1);
    if (has_bytes(pid, "environ", of_one, length - 1) && !has_bytes(pid, "environ", of_one, length + 1))
      return true;
  }
  return false;
}

// A program whose children have nothing to do with each other.
bool is_shell(int pid) noexcept {
  char executable[1024];
  const ssize_t n = base::sys_readlink(proc_path(pid, "exe").c_str(), executable, sizeof executable - 1);
  if (n <= 0) return false;
  executable[n] = 0;
  for (const char* name :
       {"sh", "bash", "dash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh", "busybox", "make", "xargs"}) {
    if (!std::strcmp(base::file_name(executable), name)) return true;
  }
  return false;
}

// Start time and pid of the topmost ancestor that carries the library: every process of a job that was
// started with one LD_PRELOAD derives the same, without being told. It is not looked for above a shell, which
// runs one job after another, unless that shell starts the ranks of a job itself.
void derive_run_id(base::Text<256>* id) noexcept {
  int pid = base::sys_getpid();
  ProcessStat top = {};
  read_stat(pid, &top);
  for (int depth = 0; depth < 64 && top.parent > 1; ++depth) {
    ProcessStat parent = {};
    if (!carries_library(top.parent) || !read_stat(top.parent, &parent)) break;
    if (is_shell(top.parent) && !is_one_of_several_ranks(pid)) break;
    pid = top.parent;
    top = parent;
  }
  static char text[8192];
  uint64_t boot = 0;
  if (read_file("/proc/stat", text, sizeof text) > 0) {
    if (const char* line = std::strstr(text, "\nbtime ")) boot = std::strtoull(line + 7, nullptr, 10);
  }
  const time_t start = static_cast<time_t>(boot + top.start_ticks / 100);
  tm utc = {};
  gmtime_r(&start, &utc);
  id->add(static_cast<uint64_t>(utc.tm_year + 1900), 4).add(static_cast<uint64_t>(utc.tm_mon + 1), 2);
  id->add(static_cast<uint64_t>(utc.tm_mday), 2).add('-');
  id->add(static_cast<uint64_t>(utc.tm_hour), 2).add(static_cast<uint64_t>(utc.tm_min), 2);
  id->add(static_cast<uint64_t>(utc.tm_sec), 2).add('-').add(static_cast<uint64_t>(pid));
}

void find_run_id(base::Text<256>* id) noexcept {
  if (const char* given = runtime::config().run_id) return add_safe(id, given);
  if (const char* job = std::getenv("SLURM_JOB_ID")) {
    id->add("slurm-");
    add_safe(id, job);
    // The processes of a step agree on its number. A batch script without srun may run several jobs in turn.
    if (const char* step = std::getenv("SLURM_STEP_ID"))
      add_safe(&id->add('.'), step);
    else if (!is_one_of_several_ranks(base::sys_getpid()))  // else of mpirun in a batch script
      derive_run_id(&id->add('.'));
    if (const char* restart = std::getenv("SLURM_RESTART_COUNT")) add_safe(&id->add('.'), restart);
    return;
  }
  const char* elastic = std::getenv("TORCHELASTIC_RUN_ID");
  if (elastic && *elastic && std::strcmp(elastic, "none")) {
    add_safe(&id->add("elastic-"), elastic);
    if (const char* restart = std::getenv("TORCHELASTIC_RESTART_COUNT")) add_safe(&id->add('.'), restart);
    return;
  }
  derive_run_id(id);
}

// mkdir, and whether the result is a directory of ours that we may write to, that is not a link, and whose
// disk has space for a trace.
int make_directory(const char* path, bool* made) noexcept {
  const int error = base::sys_mkdir(path, 0700);
  *made = error == 0;
  if (error && error != -EEXIST) return error;
  const int fd = base::sys_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return fd;
  const bool has_space = leaves_disk_reserve(fd, trace::kSegmentBytes);
  base::sys_close(fd);
  if (has_space) return static_cast<int>(base::raw_syscall(SYS_access, base::address(path), 2 | 1));
  if (*made) base::raw_syscall(SYS_rmdir, base::address(path));
  return -ENOSPC;
}

// Makes what is missing of the way to `path`, for its user alone. What cannot be made shows later.
void make_parents(const char* path) noexcept {
  static base::Path parent, above;  // 4 KiB each, under the lock
  parent = above = base::Path();
  for (const char* at = path; *at; ++at) {
    const bool ends_parent = *at == '/' && parent.size() && at[1] && at[1] != '/';
    if (ends_parent) {
      if (base::sys_mkdir(parent.c_str(), 0700) == 0)
        hand_over(parent.c_str(), above.size() ? above.c_str() : ".");
      above = parent;
    }
    parent.add(*at);
  }
}

bool try_place(RunPlace* place, const char* parent, const char* suffix, int* error) noexcept {
  place->directory = base::Path();
  place->directory.add(parent);
  if (suffix)
    place->directory.add("/gpuwatch-").add(place->script.c_str()).add('-').add(place->run_id.c_str());
  const int failed =
      place->directory.was_cut() ? -ENAMETOOLONG : make_directory(place->directory.c_str(), &place->is_first);
  if (!failed) return true;
  if (!*error) *error = -failed;
  return false;
}

}  // namespace

void hand_over(const char* path, const char* directory) noexcept {
  if (base::raw_syscall(SYS_geteuid) != 0) return;
  struct stat about = {};
  if (base::raw_syscall(SYS_lstat, base::address(directory), base::address(&about)) || about.st_uid == 0)
    return;
  base::raw_syscall(SYS_lchown, base::address(path), about.st_uid, about.st_gid);
}

void note_script(int argc, char** argv) noexcept {
  base::Text<sizeof g_script> script;
  add_safe(&script, base::file_name(script_of(argc, argv)));
  std::memcpy(g_script, script.c_str(), script.size() + 1);
}

int environment_number(const char* name) noexcept {
  const char* text = std::getenv(name);
  if (!text || *text < '0' || *text > '9') return -1;
  return std::atoi(text);
}

bool find_run_place(RunPlace* place, int* error) noexcept {
  *error = 0;
  utsname machine;
  uname(&machine);
  add_safe(&place->host, machine.nodename);
  place->script.add(g_script);
  find_run_id(&place->run_id);
  if (const char* out = runtime::config().out) {
    make_parents(out);
    return try_place(place, out, nullptr, error);
  }
  if (try_place(place, runtime::config().start_directory, "run", error)) return true;
  for (const char* variable : {"SLURM_TMPDIR", "TMPDIR"}) {
    const char* directory = std::getenv(variable);
    if (directory && *directory && try_place(place, directory, "run", error)) return true;
  }
  // /tmp is shared with others: a directory of our own first, which must not be a link somebody else laid.
  base::Text<64> own;
  own.add("/tmp/gpuwatch-").add(static_cast<uint64_t>(base::raw_syscall(SYS_geteuid)));
  bool made = false;
  struct stat about = {};
  if (make_directory(own.c_str(), &made)) return false;
  if (base::raw_syscall(SYS_lstat, base::address(own.c_str()), base::address(&about)) ||
      about.st_uid != static_cast<uid_t>(base::raw_syscall(SYS_geteuid))) {
    return false;
  }
  return try_place(place, own.c_str(), "run", error);
}

void file_path(const RunPlace& place, int rank, uint64_t attempt, base::Path* path) noexcept {
  path->add(place.directory.c_str()).add('/').add(place.host.c_str()).add('.');
  path->add(static_cast<uint64_t>(rank < 0 ? 0 : rank)).add('.');
  path->add(static_cast<uint64_t>(base::sys_getpid())).add('.');
  ProcessStat self = {};
  read_stat(base::sys_getpid(), &self);
  path->add(self.start_ticks);
  if (attempt) path->add('-').add(attempt);
  path->add(".gwt");
}

}  // namespace gpuwatch::record
