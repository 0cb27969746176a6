// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/pytorch/iterators.h"

#include "hooks/python/interpreter/object.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/fork_epoch.h"

namespace gpuwatch::hooks::python {

GW_TLS LoaderActivity t_activity;

namespace {

constexpr uint32_t kIterators = 128;
constinit Iterator g_iterators[kIterators];
constinit uint32_t g_newest = 0;  // where a look-up begins: mostly the one iterator in use

// Called by Python with the weak reference of a dying iterator. The reference itself is released when its
// entry is reused: here the interpreter still uses it.
PyObject* note_death(PyObject*, PyObject* reference) {
  for (Iterator& iterator : g_iterators) {
    if (iterator.death != reference) continue;
    iterator.object = nullptr;
    iterator.loader = nullptr;
  }
  return Ref::of_borrowed(g_api.none).release();
}
constinit MethodDef g_note_death = {"gpuwatch", note_death, kOneObject, nullptr};

PyObject* watch_death(PyObject* object) noexcept {
  const Ref callback(g_api.PyCFunction_NewEx(&g_note_death, nullptr, nullptr));
  PyObject* reference = callback ? g_api.PyWeakref_NewRef(object, callback.get()) : nullptr;
  if (!reference) g_api.PyErr_Clear();
  return reference;
}

// A free place, else that of the iterator constructed longest ago.
Iterator& place_for_another() noexcept {
  for (uint32_t i = 1; i <= kIterators; ++i) {
    const uint32_t at = (g_newest + i) % kIterators;
    if (!g_iterators[at].object) return g_iterators[g_newest = at];
  }
  Iterator& oldest = g_iterators[g_newest = (g_newest + 1) % kIterators];
  if (oldest.death)  // else it may have died
    record::lose(GW_INCOMPLETE "DataLoader iterators are forgotten: more than 128 are in use", 1);
  return oldest;
}

// Class of what an exhausted worker sends in place of a batch; null if there is none.
PyObject* end_class() noexcept {
  static constinit PyObject* g_class = nullptr;  // immortal
  PyObject* worker = g_class ? nullptr : loaded_module("torch.utils.data._utils.worker");
  if (Ref end = worker ? attribute(worker, "_IterableDatasetStopIteration") : Ref()) g_class = end.release();
  return g_class;
}

}  // namespace

Iterator* find_iterator(const PyObject* object) noexcept {
  for (uint32_t i = 0; object && i < kIterators; ++i) {
    Iterator& iterator = g_iterators[(g_newest - i) % kIterators];
    if (iterator.object == object) return &iterator;
  }
  return nullptr;
}

Iterator* add_iterator(PyObject* object, Loader* loader) noexcept {
  Iterator* known = find_iterator(object);  // constructed twice, or its death was not seen
  Iterator& iterator = known ? *known : place_for_another();
  const Ref before(iterator.death);
  iterator = Iterator{object, watch_death(object), loader, 0, 0, runtime::epoch(), false};
  return &iterator;
}

Iterator* find_iterator_with(const char* name, const PyObject* value) noexcept {
  for (Iterator& iterator : g_iterators) {
    if (!iterator.object || !iterator.death) continue;
    const Ref object(g_api.PyObject_CallFunctionObjArgs(iterator.death, nullptr));
    if (!object || object.is_none()) continue;
    const Ref found = attribute(object.get(), name);
    if (found.get() == value) return &iterator;
  }
  return nullptr;
}

bool is_in_use(const Loader& loader) noexcept {
  for (const Iterator& iterator : g_iterators) {
    const bool is_alive = iterator.object && iterator.death && iterator.epoch == runtime::epoch();
    if (is_alive && iterator.loader == &loader && !iterator.is_exhausted) return true;
  }
  return false;
}

Message read_message(PyObject* message) noexcept {
  const Ref index_object = item(message, 0);
  const long index = index_object ? to_long(index_object.get(), -1) : -1;
  if (index < 0) return {};
  const Ref data = item(message, 1);
  const Ref type(data ? g_api.PyObject_Type(data.get()) : nullptr);
  const Ref tuple(g_api.PyObject_Type(message));
  if (!type || type.get() != tuple.get()) return {index, type && type.get() == end_class()};
  const Ref first = item(data.get(), 0);  // StatefulDataLoader: (data, worker, state)
  const Ref first_type(first ? g_api.PyObject_Type(first.get()) : nullptr);
  return {index, first_type && first_type.get() == end_class()};
}

long worker_index() noexcept {
  PyObject* module = loaded_module("torch.utils.data._utils.worker");
  const Ref info = module ? attribute(module, "_worker_info") : Ref();
  return info && !info.is_none() ? long_attribute(info.get(), "id", -1) : -1;
}

}  // namespace gpuwatch::hooks::python
