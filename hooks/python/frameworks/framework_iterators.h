// SPDX-License-Identifier: Apache-2.0
// Loaders that are not torch's, and the iterators over them that are alive. A loader is one for as long as
// its settings and its dataset are the same. Iterators are told by address, and what kernels of TensorFlow on
// other threads read of them is atomic.
//
// Thread safety: the GIL must be held, but for find_bound() and the atomics. Signal safety: none.
#pragma once

#include <atomic>
#include <cstdint>

#include "hooks/python/interpreter/api.h"
#include "libinject/record/recorder.h"

namespace gpuwatch::hooks::python {

struct FrameworkLoader {
  const PyObject* dataset = nullptr;
  trace::LoaderInfoFields fields;  // without the id, as a key
  uint32_t passes = 0;
};

// `iterator` is what the user has in hand; `dataset` what a tf.data iterator iterates, null for the other
// frameworks. `framework`: whose loader it is unless another framework stands above it on the stack.
FrameworkLoader* describe_loader(const char* framework, PyObject* iterator, PyObject* dataset) noexcept;

// That of waits whose iterator was made inside a graph.
uint32_t loader_in_graph() noexcept;

// What a Keras model trains on; its iterators are made somewhere below fit().
void note_keras_data(const char* words) noexcept;

struct FrameworkIterator {
  const PyObject* object = nullptr;
  std::atomic<const void*> resource{nullptr};
  std::atomic<uint32_t> loader{0};
  std::atomic<uint32_t> returned{0};
  std::atomic<uint32_t> waits{0};  // next() calls under way
};

FrameworkIterator* find_iterator_over(const PyObject* object) noexcept;  // null: not known
// The iterator at this address is gone, and another object has it now.
void forget_iterator(const PyObject* object) noexcept;
FrameworkIterator& start_iterator(const PyObject* object) noexcept;
FrameworkIterator* find_bound(const void* resource) noexcept;

void unbind(const void* resource) noexcept;  // an address used again

// From 1; 0 is none.
uint32_t number_of(const FrameworkIterator& iterator) noexcept;
FrameworkIterator* iterator_of_number(uint32_t number) noexcept;

}  // namespace gpuwatch::hooks::python
