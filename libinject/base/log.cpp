// SPDX-License-Identifier: Apache-2.0
#include "libinject/base/log.h"

#include <sys/ioctl.h>
#include <termios.h>

#include <atomic>

#include "libinject/base/syscall.h"
#include "libinject/base/text.h"

namespace gpuwatch::base {
namespace {

constinit std::atomic<bool> g_said{false};

bool stderr_is_terminal() noexcept {
  termios ignored;
  return raw_syscall(SYS_ioctl, 2, TCGETS, address(&ignored)) == 0;
}

}  // namespace

void say(const char* text) noexcept {
  if (g_said.exchange(true, std::memory_order_relaxed)) return;
  // One write(2), so that lines of several ranks do not mix.
  Text<1024> line;
  line.add("gpuwatch: ").add(text).add('\n');
  sys_write(2, line.c_str(), line.size());
}

void say_on_terminal(const char* text) noexcept {
  if (stderr_is_terminal()) say(text);
}

void silence() noexcept {
  g_said.store(true, std::memory_order_relaxed);
}

}  // namespace gpuwatch::base
