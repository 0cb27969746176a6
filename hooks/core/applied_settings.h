// SPDX-License-Identifier: Apache-2.0
// What GPUWATCH_APPLY asks for: "num_workers=4,prefetch_factor=4@train.py:88". Settings are separated by
// commas; what follows "@" is the place of the only loader that it is for, as a finding names it. A part
// without "=" belongs to the value before it ("PYTORCH_CUDA_ALLOC_CONF=a:1,b:2"). Names are those of
// libinject/trace/applicable.def. Nothing is applied unless all of it is understood.
//
// Read once, in the library's constructor, and constant afterwards: any thread, signal safe. The notes need
// the caller to be the only one in here (the GIL, or the constructor).
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuwatch::hooks::applied {

enum class Setting : uint8_t {
#define GW_APPLICABLE(name, kind, values, effect, what) name,
#include "libinject/trace/applicable.def"
#undef GW_APPLICABLE
  kCount,
};

const char* name_of(Setting setting) noexcept;

struct Request {
  Setting setting = Setting::kCount;
  char value[128] = {};
  char place[256] = {};  // "train.py:88"; empty: everywhere

  bool is_true() const noexcept;
  long number() const noexcept;  // -1: none
};

// Reads GPUWATCH_APPLY and sets the environment variables that it names. What is not understood is said when
// recording starts: commands that train nothing read it, too.
void read_requests() noexcept;

bool is_any_requested() noexcept;

// The request for this setting of a loader that is at `place` ("/home/me/train.py:88"); null if there is
// none. Settings that are no loader's have the place "".
const Request* find(Setting setting, const char* place) noexcept;

// Writes into the trace what was done, and prints the first of it ("applied num_workers=4 (was 0) ..."). The
// same thing once more is not written again. Callers have seen that this process trains.
void note_applied(const char* what) noexcept;
void note_applied_silently(const char* what) noexcept;  // in a worker: the line is the training process's
void note_refused(const char* what_and_why) noexcept;

// Writes what was done before there was a trace.
void on_recording() noexcept;

}  // namespace gpuwatch::hooks::applied
