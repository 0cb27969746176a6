// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/frameworks/tf_graph_waits.h"

#include <atomic>

#include "hooks/core/operations.h"
#include "hooks/python/frameworks/framework_iterators.h"
#include "libinject/record/recorder.h"
#include "libinject/trace/layout.h"

namespace gpuwatch::hooks::python {

GW_TLS FrameworkActivity t_framework;

namespace {

struct GraphWait {
  uint64_t begin;
  uint64_t end;
  uint32_t loader;
  uint32_t index;
  bool is_exhausted;
  std::atomic<uint64_t> number;  // of the wait that it holds, plus 1; 0 while being written
};
constexpr uint64_t kGraphWaits = 4096;
constinit GraphWait g_waits[kGraphWaits]{};
constinit std::atomic<uint64_t> g_noted{0};
constinit uint64_t g_taken = 0;  // under the GIL

void put_wait(uint32_t loader, const GraphWait& wait) noexcept {
  record::span(id(Op::tf_iterator_next), wait.begin, wait.end, wait.is_exhausted ? trace::kFailed : 0, loader,
               wait.index);
}

}  // namespace

void take_graph_waits() noexcept {
  const uint64_t noted = g_noted.load(std::memory_order_acquire);
  if (noted == g_taken || !record::is_recording()) return;
  if (noted - g_taken > kGraphWaits) {
    record::lose("waits for data beyond 4096 in one call of a TensorFlow graph",
                 noted - g_taken - kGraphWaits);
    g_taken = noted - kGraphWaits;
  }
  uint32_t in_graph = 0;
  for (; g_taken < noted; ++g_taken) {
    GraphWait& wait = g_waits[g_taken % kGraphWaits];
    if (wait.number.load(std::memory_order_acquire) != g_taken + 1) continue;  // overwritten meanwhile
    if (!wait.loader && !in_graph) in_graph = loader_in_graph();
    put_wait(wait.loader ? wait.loader : in_graph, wait);
  }
}

void bind_resource(uint32_t iterator, const void* resource) noexcept {
  unbind(resource);
  if (FrameworkIterator* bound = iterator_of_number(iterator))
    bound->resource.store(resource, std::memory_order_release);
}

bool is_waited_for(const void* resource) noexcept {
  const FrameworkIterator* iterator = find_bound(resource);
  return iterator && iterator->waits.load(std::memory_order_relaxed) > 0;
}

void note_graph_wait(const void* resource, uint64_t begin, uint64_t end, bool is_exhausted) noexcept {
  FrameworkIterator* iterator = find_bound(resource);
  const uint64_t number = g_noted.fetch_add(1, std::memory_order_relaxed);
  GraphWait& wait = g_waits[number % kGraphWaits];
  wait.number.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  wait.begin = begin;
  wait.end = end;
  wait.loader = iterator ? iterator->loader.load(std::memory_order_acquire) : 0;
  wait.index = iterator ? iterator->returned.fetch_add(!is_exhausted, std::memory_order_relaxed) : 0;
  wait.is_exhausted = is_exhausted;
  wait.number.store(number + 1, std::memory_order_release);
}

}  // namespace gpuwatch::hooks::python
