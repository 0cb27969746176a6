// SPDX-License-Identifier: Apache-2.0
// Which of several definitions of a symbol ld.so binds an object to. Cold: some hundred microseconds, and the
// dynamic linker's lock. Thread safety: any. Signal safety: none. errno may change.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libinject/runtime/elf_symbols.h"

namespace gpuwatch::runtime {

// A loaded object, and its place in load order.
struct LoadedObject {
  dl_phdr_info info = {};
  size_t position = 0;
  uintptr_t begin = 0;  // of the segment that was asked for
  size_t bytes = 0;
};

bool find_object(uintptr_t address, LoadedObject* object) noexcept;

// The object that a call of the hook comes from: the one that the call returns to, or the one whose function
// it called there, if that one ended in a call of the hook. False: none refers to the symbol.
bool find_calling_object(const char* name, uintptr_t return_address, const void* hook,
                         LoadedObject* object) noexcept;

// As ld.so would bind the object, were this library not there. Null: not found.
void* look_up_for(const LoadedObject& object, const WantedSymbol& wanted) noexcept;

// Definitions in libraries behind this one in load order, other copies of this one left out.
struct Definitions {
  size_t count = 0;
  void* first = nullptr;
};
Definitions find_definitions(const WantedSymbol& wanted) noexcept;

}  // namespace gpuwatch::runtime
