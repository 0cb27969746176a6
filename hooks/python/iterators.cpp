// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/iterators.h"

namespace gpuwatch::hooks::python {

GW_TLS LoaderActivity t_activity;

namespace {

constexpr uint32_t kIterators = 128;
constinit Iterator g_iterators[kIterators];
constinit uint32_t g_newest = 0;  // where a look-up begins: mostly the one iterator in use

}  // namespace

Iterator* find_iterator(const PyObject* object) noexcept {
  for (uint32_t i = 0; object && i < kIterators; ++i) {
    Iterator& iterator = g_iterators[(g_newest - i) % kIterators];
    if (iterator.object == object) return &iterator;
  }
  return nullptr;
}

Iterator* add_iterator(const PyObject* object, Loader* loader) noexcept {
  Iterator* iterator = find_iterator(object);  // the address may have belonged to an iterator that is gone
  if (!iterator) iterator = &g_iterators[g_newest = (g_newest + 1) % kIterators];
  *iterator = Iterator{object, loader, 0, 0};
  return iterator;
}

}  // namespace gpuwatch::hooks::python
