// SPDX-License-Identifier: Apache-2.0
#include "libinject/runtime/fork_epoch.h"

#include <pthread.h>
#include <sys/mman.h>

#include "libinject/base/syscall.h"

namespace gpuwatch::runtime {

constinit volatile uint32_t* g_epoch = nullptr;

namespace {
constinit uint32_t g_last_epoch =
    0;  // inherited by children, so that each generation gets a number of its own

void forget_epoch() noexcept {
  *g_epoch = 0;
}
}  // namespace

bool start_epochs() noexcept {
  void* page = base::sys_mmap(4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (!page) return false;
  const bool wiped = base::raw_syscall(SYS_madvise, base::address(page), 4096, MADV_WIPEONFORK) == 0;
  auto* word = static_cast<volatile uint32_t*>(page);
  *word = ++g_last_epoch;
  g_epoch = word;
  if (!wiped) pthread_atfork(nullptr, nullptr, forget_epoch);
  return wiped;
}

uint32_t enter_epoch() noexcept {
  uint32_t expected = 0;
  const uint32_t next = g_last_epoch + 1;
  if (__atomic_compare_exchange_n(const_cast<uint32_t*>(g_epoch), &expected, next, false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE)) {
    g_last_epoch = next;
    return next;
  }
  return expected;
}

}  // namespace gpuwatch::runtime
