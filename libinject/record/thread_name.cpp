// SPDX-License-Identifier: Apache-2.0
#include "libinject/record/thread_name.h"

#include <sys/prctl.h>

#include <cstring>

#include "libinject/base/compiler.h"
#include "libinject/base/syscall.h"
#include "libinject/record/recorder.h"

namespace gpuwatch::record {

namespace {

constexpr size_t kBytes = 16;  // TASK_COMM_LEN, with the terminating zero

char g_process_name[kBytes + 1] = "";  // and a newline

}  // namespace

GW_COLD void note_process_name() noexcept {
  if (base::read_file("/proc/self/comm", g_process_name, sizeof g_process_name) > 0)
    g_process_name[std::strcspn(g_process_name, "\n")] = 0;
}

GW_COLD void put_given_thread_name(uint32_t tid) noexcept {
  char name[kBytes] = "";
  base::raw_syscall(SYS_prctl, PR_GET_NAME, base::address(name));
  const bool is_main = tid == static_cast<uint32_t>(base::sys_getpid());
  if (!name[0] || is_main || std::strncmp(name, g_process_name, kBytes) == 0) return;
  trace::ThreadNameFields fields;
  fields.process = process_ordinal();
  fields.thread = tid;
  fields.name = intern(name);
  put(fields);
}

}  // namespace gpuwatch::record
