// SPDX-License-Identifier: Apache-2.0
// The definition that a libc hook replaces: the first one after this library in load order, read from the ELF
// symbol tables of the loaded objects. dlsym(RTLD_NEXT) should give the same, and does not always:
//   - before glibc 2.36 it gave the oldest version of a symbol: pthread_cond_wait@GLIBC_2.2.5 has another
//     layout of the condition, and a job hangs; here the default version is taken, whatever its name;
//   - before glibc 2.34 a process that does not use libdl has no dlsym, and `cat` must work there too;
//   - it allocates on a thread's first error (an allocator that opens a file while it starts would recurse),
//     and it replaces the text that the job's next dlerror() is to find.
// Thread safety: any. Signal safety: as dl_iterate_phdr's recursive lock; no allocation, errno kept.
#pragma once

#include <cstddef>

#include "libinject/runtime/elf_symbols.h"

namespace gpuwatch::runtime {

// Fills found[i] for wanted[i] where it is null; it stays null if no object after this library defines the
// name.
void find_next_definitions(const WantedSymbol* wanted, void** found, size_t count) noexcept;

}  // namespace gpuwatch::runtime
