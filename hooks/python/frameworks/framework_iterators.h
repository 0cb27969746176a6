// SPDX-License-Identifier: Apache-2.0
// Loaders that are not PyTorch's, and their live iterators. Two loaders with the same settings and the same
// dataset count as one. Iterators are identified by address; the fields that kernels of TensorFlow read on
// other threads are atomic.
//
// Thread safety: the GIL must be held, except for find_bound() and the atomics. Signal safety: none.
#pragma once

#include <atomic>
#include <cstdint>

#include "hooks/python/interpreter/api.h"
#include "libinject/record/recorder.h"

namespace gpuwatch::hooks::python {

struct FrameworkLoader {
  const PyObject* dataset = nullptr;
  trace::LoaderInfoFields fields;  // without the id, as a key
  uint32_t epochs = 0;
};

// `iterator` is what the user has in hand; `dataset` what a tf.data iterator iterates, null for the other
// frameworks. `framework`: whose loader it is unless another framework stands above it on the stack.
FrameworkLoader* describe_loader(const char* framework, PyObject* iterator, PyObject* dataset) noexcept;

// The loader of waits whose iterator was made inside a graph.
uint32_t loader_in_graph() noexcept;

// The data that a Keras model trains on. Its iterators are made below fit(), where the data is not visible.
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

void unbind(const void* resource) noexcept;  // the address was reused

// From 1; 0 is none.
uint32_t number_of(const FrameworkIterator& iterator) noexcept;
FrameworkIterator* iterator_of_number(uint32_t number) noexcept;

}  // namespace gpuwatch::hooks::python
