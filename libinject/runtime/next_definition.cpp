// SPDX-License-Identifier: Apache-2.0
#include "libinject/runtime/next_definition.h"

#include <link.h>

#include "libinject/base/errno_guard.h"

namespace gpuwatch::runtime {
namespace {

struct Search {
  const WantedSymbol* wanted;
  void** found;
  size_t count;
  size_t missing;
  bool is_behind_us;  // false until the walk has passed this library
};

int visit(dl_phdr_info* object, size_t, void* argument) noexcept {
  auto& search = *static_cast<Search*>(argument);
  if (!search.is_behind_us) {
    search.is_behind_us = segment_of(*object, reinterpret_cast<uintptr_t>(&find_next_definitions)) != nullptr;
    return 0;
  }
  const ElfSymbols symbols(*object);
  for (size_t i = 0; i < search.count; ++i) {
    if (search.found[i]) continue;
    search.found[i] = symbols.find(search.wanted[i]);
    if (search.found[i]) --search.missing;
  }
  return search.missing == 0;
}

}  // namespace

void find_next_definitions(const WantedSymbol* wanted, void** found, size_t count) noexcept {
  const base::ErrnoGuard keep_errno;
  size_t missing = 0;
  for (size_t i = 0; i < count; ++i) missing += found[i] == nullptr;
  Search search{wanted, found, count, missing, false};
  dl_iterate_phdr(visit, &search);
}

}  // namespace gpuwatch::runtime
