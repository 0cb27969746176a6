// SPDX-License-Identifier: Apache-2.0
// Names of ranges, domains and categories, and their ids in the trace. A program may make up a name for each
// iteration ("step 4711"): past 2048 different names digits are left out ("step #"), and the metadata of
// XLA's and TensorFlow's TraceMe ("train#step_num=7#") is never kept, so that a trace does not grow by a text
// for each range. Thread safety: any; a known name costs no lock. Nothing here is given back: names live as
// long as the process.
#pragma once

#include <atomic>
#include <cstdint>

#include "hooks/nvtx/nvtx_api.h"

namespace gpuwatch::hooks::nvtx {

// The id of a text in the trace; 0 for none, or while nothing is recorded.
uint32_t text_id(const char* text) noexcept;
uint32_t text_id(const wchar_t* text) noexcept;

// What a program registers before its first range, when nothing may be recorded yet: kept, and written when
// it is first used. Null where there is no memory.
struct Name {
  std::atomic<uint32_t> id{0};
  uint32_t bytes = 0;
  char text[1];  // ends with a null
};
Name* keep(const char* text) noexcept;
Name* keep(const wchar_t* text) noexcept;
uint32_t id_of(Name* name) noexcept;  // 0 for null

// Handles of another NVTX tool, and our name for each.
void associate(Handle handle, Name* name) noexcept;
Name* associated(Handle handle) noexcept;

// `domain` tells domains apart; null is the default one.
void name_category(const void* domain, uint32_t category, Name* name) noexcept;
Name* category_name(const void* domain, uint32_t category) noexcept;

// What the job calls one of its threads, by gettid(). Written at once, or, where nothing is recorded yet, by
// write_thread_names() when recording begins.
void name_thread(uint32_t thread, Name* name) noexcept;
void write_thread_names() noexcept;

}  // namespace gpuwatch::hooks::nvtx
