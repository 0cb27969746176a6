// SPDX-License-Identifier: Apache-2.0
#include "libinject/record/own_thread.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include "libinject/base/syscall.h"
#include "libinject/record/recorder.h"

namespace gpuwatch::record {

bool start_own_thread(ThreadFunction run, void* argument) noexcept {
  if (!pthread_create || !pthread_detach || !pthread_sigmask) return false;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool created = pthread_create(&thread, nullptr, run, argument) == 0;
  if (created) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return created;
}

void name_own_thread() noexcept {
  constexpr char kName[] = "gpuwatch";
  base::raw_syscall(SYS_prctl, PR_SET_NAME, base::address(kName));
  trace::ThreadNameFields fields;
  fields.process = process_ordinal();
  fields.thread = static_cast<uint32_t>(base::sys_gettid());
  fields.name = intern(kName);
  put(fields);
}

}  // namespace gpuwatch::record
