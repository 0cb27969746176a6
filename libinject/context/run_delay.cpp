// SPDX-License-Identifier: Apache-2.0
#include "libinject/context/run_delay.h"

#include <fcntl.h>

#include "libinject/base/kept_file.h"
#include "libinject/base/syscall.h"
#include "libinject/machine/proc_text.h"
#include "libinject/runtime/fork_epoch.h"

namespace gpuwatch::context {
namespace {

constexpr char kPath[] = "/proc/thread-self/schedstat";
constinit base::KeptFile g_file;  // of the main thread, and used by it alone
constinit uint32_t g_epoch = 0;

ssize_t read_as_main_thread(char* to, size_t bytes) noexcept {
  if (g_epoch != runtime::epoch()) {  // the parent's: it tells of the parent's thread
    g_file.release();
    g_epoch = runtime::epoch();
  }
  base::Descriptor file = g_file.kept();
  if (file.fd < 0) {
    const int fd = base::sys_open(kPath, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fd;
    file = g_file.keep(fd);
  }
  const ssize_t size = base::sys_pread(file.fd, to, bytes, 0);
  base::close_unless_kept(file);
  return size;
}

}  // namespace

// "cpu_ns run_delay_ns timeslices"
uint64_t thread_run_delay_ns() noexcept {
  char line[96] = {};
  const bool is_main = base::sys_gettid() == base::sys_getpid();
  const ssize_t size =
      is_main ? read_as_main_thread(line, sizeof line - 1) : base::read_file(kPath, line, sizeof line);
  if (size <= 0) return 0;
  const char* at = line;
  machine::skip_words(at, 1);
  return machine::take_number(at);
}

}  // namespace gpuwatch::context
