// SPDX-License-Identifier: Apache-2.0
// One thread's end of the recorder: where its next slot goes. Owned by the thread, found through one
// thread-local pointer, trivially destructible, recycled when the thread ends. Internal to record/.
#pragma once

#include <cstdint>

#include "libinject/base/compiler.h"
#include "libinject/trace/trace_generated.h"

namespace gpuwatch::record {

inline constexpr uint32_t kOpenCallLevels = 4;  // as in trace.fbs: OpenCalls.calls

struct ThreadRecorder {
  trace::Slot* slots = nullptr;  // of the current chunk
  uint32_t* length = nullptr;    // the published vector length, in the mapping
  uint32_t count = 0;            // slots stored
  uint32_t capacity = 0;
  struct OpenCallsInPlace* open = nullptr;
  uint32_t depth = 0;  // calls entered and not left
  uint32_t epoch = 0;  // of the process that set this up; another value: we are in a forked child
  uint32_t tid = 0;
  uint32_t sequence = 0;    // chunks so far
  uint32_t pages = 0;       // of the current chunk
  bool is_storing = false;  // a signal handler's record in the middle of ours would tear it
  ThreadRecorder* next_free = nullptr;
};

// The layout of trace::OpenCalls, written field by field while others may read it.
struct OpenCallsInPlace {
  uint32_t depth;
  uint32_t reserved;
  struct {
    uint64_t since;
    uint16_t op;
    uint16_t reserved;
    uint32_t a;
  } calls[kOpenCallLevels];
};
static_assert(sizeof(OpenCallsInPlace) == sizeof(trace::OpenCalls));

// This thread's recorder in this process, with a chunk; null when nothing can be recorded now. Cold.
ThreadRecorder* prepare_thread() noexcept;

// Room for `slots` more in the current chunk, taking a new one if needed.
bool make_room(ThreadRecorder* thread, uint32_t slots) noexcept;

// Set up what a process needs before its first record after a fork; process_ordinal() changes. Cold.
bool join_process() noexcept;

uint32_t current_pid() noexcept;  // cached by epoch

extern GW_TLS ThreadRecorder* t_recorder;
extern GW_TLS bool t_quiet;

}  // namespace gpuwatch::record
