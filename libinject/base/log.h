// SPDX-License-Identifier: Apache-2.0
// The one line that a job may see from us. say() prints "gpuwatch: <text>" to stderr, the first time only in
// this process; everything later is dropped. Thread and signal safe.
#pragma once

namespace gpuwatch::base {

void say(const char* text) noexcept;              // only if no line was printed yet
void say_on_terminal(const char* text) noexcept;  // as say(), and only if stderr is a terminal
void silence() noexcept;                          // GPUWATCH_LOG=off: nothing is ever printed

}  // namespace gpuwatch::base
