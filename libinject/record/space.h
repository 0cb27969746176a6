// SPDX-License-Identifier: Apache-2.0
// The trace file as shared space: claims page ranges for frames and makes them writable. All processes of a
// family (a rank and its forked workers) claim from the same atomic counter in page 0 of the mapping they
// inherited; a claim needs no lock and survives the death of any of them.
//
// Space is reserved on disk before it is mapped (a sparse mapping on a full disk kills its writer with
// SIGBUS), after checking RLIMIT_FSIZE (growing past it raises SIGXFSZ) and that the job keeps its share of
// the disk (disk_reserve.h), in steps of 4 MiB and smaller ones at first. Where the file system cannot
// reserve, a frame is written with zeros before it is handed out. Thread safety: any. Signal safety: claim()
// is. Errors: null, with the reason in the header's `stopped` or `child_stop`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libinject/trace/templates.h"

namespace gpuwatch::record::space {

// Creates `path` (exclusively, never through a link) with a header page. False with errno-style *error.
bool create(const char* path, uint32_t mode, uint64_t max_bytes, int* error) noexcept;

// `pages` consecutive zeroed pages within one segment, or null when recording has stopped (limit, disk, ...).
uint8_t* claim(uint32_t pages) noexcept;

// Tells the kernel that this process is done with a frame: it stays in the file, not in our resident memory.
void release(uint8_t* frame, uint32_t pages) noexcept;

// Counters of page 0 (atomic).
uint32_t next_process() noexcept;
uint32_t next_id() noexcept;

// For this process: the file is full or the disk is, or it cannot get at the file any more. The reason is in
// the file's header.
bool is_stopped() noexcept;

}  // namespace gpuwatch::record::space
