// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/framework_loaders.h"

#include <atomic>
#include <cstring>
#include <type_traits>

#include "hooks/evidence.h"
#include "hooks/operations.h"
#include "hooks/python/facts.h"
#include "hooks/python/framework.h"
#include "hooks/python/graph_waits.h"
#include "hooks/python/location.h"
#include "hooks/python/wrap.h"
#include "libinject/base/clock.h"
#include "libinject/context/sampler.h"
#include "libinject/record/recorder.h"
#include "libinject/trace/layout.h"

namespace gpuwatch::hooks::python {

GW_TLS FrameworkActivity t_framework;

namespace {

struct Row {
  const char* name;  // "Class.method"
  const char* module;
  const char* framework;
  Op op;
};
constexpr Row kRows[] = {
#define GW_METHOD(identifier, op_class, name, module, framework, kind) \
  {name, module, framework, Op::identifier},
#include "hooks/python/frameworks.def"
};
constexpr size_t kRowCount = sizeof kRows / sizeof kRows[0];

constinit std::atomic<bool> g_has_met{false};

// --- loaders ---------------------------------------------------------------------------------------------

struct Known {
  const PyObject* dataset = nullptr;
  trace::LoaderInfoFields fields;  // without the id, as a key
  uint32_t passes = 0;
};
static_assert(std::has_unique_object_representations_v<trace::LoaderInfoFields>);  // compared by memcmp
constexpr size_t kKnown = 64;
constinit Known g_known[kKnown];
constinit size_t g_known_count = 0;

// What a Keras model trains on; its iterators are made somewhere below fit().
constinit char g_keras_data[128] = "";

Known* identify(trace::LoaderInfoFields fields, const PyObject* dataset) noexcept {
  const size_t count = g_known_count < kKnown ? g_known_count : kKnown;
  for (size_t i = 0; i < count; ++i) {
    fields.id = g_known[i].fields.id;
    if (g_known[i].dataset == dataset && std::memcmp(&g_known[i].fields, &fields, sizeof fields) == 0)
      return &g_known[i];
  }
  fields.id = record::new_id();
  record::put(fields);
  Known& known = g_known[g_known_count++ % kKnown];
  known = Known{dataset, fields, 0};
  return &known;
}

// "_ParallelMapDataset" is a ParallelMap.
void add_stage(base::Text<256>& stages, const char* class_name) noexcept {
  if (*class_name == '_') ++class_name;
  const size_t length = std::strlen(class_name);
  const char* suffix = "Dataset";
  const size_t suffix_length = std::strlen(suffix);
  const bool has_suffix =
      length > suffix_length && std::strcmp(class_name + length - suffix_length, suffix) == 0;
  if (stages.size() > 0) stages.add(" < ");
  stages.add(class_name, has_suffix ? length - suffix_length : length);
}

// A tf.data pipeline from its end to its source: "Prefetch < Batch < Map < TensorSlice".
int describe_pipeline(PyObject* dataset, base::Text<256>& stages) noexcept {
  constexpr int kMostStages = 16;
  long batch_size = -1;
  Ref stage = Ref::of_borrowed(dataset);
  for (int i = 0; stage && !stage.is_none() && i < kMostStages; ++i) {
    add_stage(stages, class_name(stage.get()).c_str());
    if (batch_size < 0) batch_size = long_attribute(stage.get(), "_batch_size", -1);
    stage = attribute(stage.get(), "_input_dataset");
  }
  return static_cast<int>(batch_size);
}

int either(PyObject* object, const char* name, const char* other) noexcept {
  const long value = long_attribute(object, name, -1);
  return static_cast<int>(value >= 0 ? value : long_attribute(object, other, -1));
}

trace::LoaderInfoFields unknown_loader(const char* framework) noexcept {
  trace::LoaderInfoFields fields;
  fields.process = record::process_ordinal();
  fields.framework = record::intern(framework);
  fields.location = record::intern(users_location().c_str());
  fields.num_workers = fields.batch_size = fields.prefetch_factor = fields.batches = -1;
  fields.pin_memory = fields.persistent_workers = fields.in_order = fields.drop_last = -1;
  return fields;
}

// `dataset` is what a tf.data iterator iterates; null for the other frameworks.
Known* describe(const Row& row, PyObject* iterator, PyObject* dataset) noexcept {
  const record::Quiet quiet;
  const ErrorGuard guard;
  put_torch_facts();
  const char* above = framework_on_stack();
  trace::LoaderInfoFields fields = unknown_loader(above ? above : row.framework);
  fields.class_name = record::intern(class_name(dataset ? dataset : iterator).c_str());
  if (dataset) {
    base::Text<256> stages;
    fields.batch_size = describe_pipeline(dataset, stages);
    fields.dataset = record::intern(stages.c_str());
    if (above && std::strcmp(above, "keras") == 0 && *g_keras_data)
      fields.class_name = record::intern(g_keras_data);
  } else {
    fields.batch_size = either(iterator, "batch_size", "_batch_size");
    fields.prefetch_factor = either(iterator, "_prefetch_batches", "prefetch_batches");
  }
  return identify(fields, dataset);
}

// --- iterators -------------------------------------------------------------------------------------------

// Those alive, by address; number n is entry n - 1. What kernels on other threads read is atomic.
struct Iterator {
  const PyObject* object = nullptr;
  std::atomic<const void*> resource{nullptr};
  std::atomic<uint32_t> loader{0};
  std::atomic<uint32_t> returned{0};
  std::atomic<uint32_t> waits{0};  // next() calls under way
};
constexpr uint32_t kIterators = 128;
constinit Iterator g_iterators[kIterators];
constinit uint32_t g_newest = 0;

Iterator* find_iterator_over(const PyObject* object) noexcept {
  for (uint32_t i = 0; object && i < kIterators; ++i) {
    Iterator& iterator = g_iterators[(g_newest + kIterators - i) % kIterators];
    if (iterator.object == object) return &iterator;
  }
  return nullptr;
}

// Another object lives at the address of one that is gone.
void forget_iterator(const PyObject* object) noexcept {
  if (Iterator* iterator = find_iterator_over(object)) iterator->object = nullptr;
}

Iterator& start_iterator(const PyObject* object) noexcept {
  Iterator* iterator = find_iterator_over(object);  // the address may have belonged to one that is gone
  if (!iterator) iterator = &g_iterators[g_newest = (g_newest + 1) % kIterators];
  iterator->object = object;
  iterator->resource.store(nullptr, std::memory_order_relaxed);
  iterator->loader.store(0, std::memory_order_relaxed);
  iterator->returned.store(0, std::memory_order_relaxed);
  iterator->waits.store(0, std::memory_order_relaxed);
  return *iterator;
}

Iterator* find_bound(const void* resource) noexcept {
  for (Iterator& iterator : g_iterators) {
    if (iterator.resource.load(std::memory_order_acquire) == resource) return &iterator;
  }
  return nullptr;
}

// --- waits in graphs -------------------------------------------------------------------------------------

struct GraphWait {
  uint64_t begin;
  uint64_t end;
  uint32_t loader;
  uint32_t index;
  bool is_exhausted;
  std::atomic<uint64_t> number;  // of the wait that it holds, plus 1; 0 while being written
};
constexpr uint64_t kGraphWaits = 4096;
constinit GraphWait g_waits[kGraphWaits];
constinit std::atomic<uint64_t> g_noted{0};
constinit uint64_t g_taken = 0;  // under the GIL

void put_wait(uint32_t loader, const GraphWait& wait) noexcept {
  record::span(id(Op::tf_iterator_next), wait.begin, wait.end, wait.is_exhausted ? trace::kFailed : 0, loader,
               wait.index);
}

// The loader of waits whose iterator was made inside a graph.
uint32_t loader_in_graph() noexcept {
  const record::Quiet quiet;
  const ErrorGuard guard;
  put_torch_facts();
  trace::LoaderInfoFields fields = unknown_loader("tf.data");
  fields.class_name = record::intern("tf.data iterator in a graph");
  return identify(fields, nullptr)->fields.id;
}

void take_graph_waits() noexcept {
  const uint64_t noted = g_noted.load(std::memory_order_acquire);
  if (noted == g_taken || !record::is_recording()) return;
  if (noted - g_taken > kGraphWaits) {
    record::lose("waits for data inside one call of a graph", noted - g_taken - kGraphWaits);
    g_taken = noted - kGraphWaits;
  }
  uint32_t in_graph = 0;
  for (; g_taken < noted; ++g_taken) {
    GraphWait& wait = g_waits[g_taken % kGraphWaits];
    if (wait.number.load(std::memory_order_acquire) != g_taken + 1) continue;  // overtaken
    if (!wait.loader && !in_graph) in_graph = loader_in_graph();
    put_wait(wait.loader ? wait.loader : in_graph, wait);
  }
}

// --- wrappers --------------------------------------------------------------------------------------------

// Not noexcept: a thread that ends in the job's code unwinds through here.
PyObject* wait_in(Op op, Iterator& iterator, PyObject* original, PyObject* self) {
  const uint32_t loader = iterator.loader.load(std::memory_order_relaxed);
  iterator.waits.fetch_add(1, std::memory_order_relaxed);
  ++t_framework.waiting;
  t_framework.is_exhausted = false;
  const record::Scope scope = record::enter(id(op), loader);
  PyObject* result = g_api.PyObject_CallFunctionObjArgs(original, self, nullptr);
  const bool has_batch = result && !t_framework.is_exhausted;
  record::leave(scope, has_batch ? 0 : trace::kFailed, loader,
                iterator.returned.load(std::memory_order_relaxed));
  context::maybe_sample(scope.begin);
  --t_framework.waiting;
  iterator.waits.fetch_sub(1, std::memory_order_relaxed);
  if (has_batch) iterator.returned.fetch_add(1, std::memory_order_relaxed);
  return result;
}

template <size_t kRow>
struct NextOfMade {
  static constexpr int kFlags = kOneObject;
  static PyObject* call(PyObject* original, PyObject* self) {
    Iterator* iterator = record::is_recording() && !t_framework.waiting ? find_iterator_over(self) : nullptr;
    if (!iterator) return g_api.PyObject_CallFunctionObjArgs(original, self, nullptr);
    return wait_in(kRows[kRow].op, *iterator, original, self);
  }
};

template <size_t kRow>
struct Next {
  static constexpr int kFlags = kOneObject;
  static PyObject* call(PyObject* original, PyObject* self) {
    if (t_framework.waiting || !begin_recording("a framework's loader")) {
      return g_api.PyObject_CallFunctionObjArgs(original, self, nullptr);
    }
    Iterator* iterator = find_iterator_over(self);
    if (!iterator) {
      iterator = &start_iterator(self);
      iterator->loader.store(describe(kRows[kRow], self, nullptr)->fields.id, std::memory_order_relaxed);
    }
    PyObject* result = wait_in(kRows[kRow].op, *iterator, original, self);
    if (!result) iterator->returned.store(0, std::memory_order_relaxed);  // StopIteration: the next pass
    return result;
  }
};

template <size_t kRow>
struct Made {
  static constexpr int kFlags = kVarArgs | kKeywords;
  static PyObject* call(PyObject* original, PyObject* args, PyObject* keywords) {
    PyObject* self = argument(args, keywords, 0, "self");
    PyObject* dataset = nullptr;
    if (kRows[kRow].op == Op::tf_iterator_made) {
      dataset = argument(args, keywords, 1, "dataset");
      if (!dataset || dataset == g_api.none) {  // a graph's view of an iterator that exists
        forget_iterator(self);
        self = nullptr;
      }
    }
    if (!self || t_framework.iterator || !begin_recording("a framework's loader")) {
      return g_api.PyObject_Call(original, args, keywords);
    }
    Iterator& iterator = start_iterator(self);
    t_framework.iterator = static_cast<uint32_t>(&iterator - g_iterators) + 1;
    const record::Scope scope = record::enter(id(kRows[kRow].op));
    PyObject* result = g_api.PyObject_Call(original, args, keywords);
    t_framework.iterator = 0;
    Known* known = result ? describe(kRows[kRow], self, dataset) : nullptr;
    if (known) {
      iterator.loader.store(known->fields.id, std::memory_order_release);
      record::leave(scope, 0, known->fields.id, known->passes++);
    } else {
      forget_iterator(self);
      record::leave_unrecorded(scope);
    }
    return result;
  }
};

template <size_t>
struct GraphCall {
  static constexpr int kFlags = kVarArgs | kKeywords;
  static PyObject* call(PyObject* original, PyObject* args, PyObject* keywords) {
    ++t_framework.graph_calls;
    PyObject* result = g_api.PyObject_Call(original, args, keywords);
    if (--t_framework.graph_calls == 0) take_graph_waits();
    return result;
  }
};

// The wait of a generator: it calls these methods of its own before and after. One that raised in between is
// dropped.
struct OpenWait {
  Iterator* iterator = nullptr;
  record::Scope scope;
};
GW_TLS OpenWait t_open_wait;

void end_wait(bool has_batch) noexcept {
  Iterator* iterator = t_open_wait.iterator;
  if (!iterator) return;
  t_open_wait.iterator = nullptr;
  record::leave(t_open_wait.scope, has_batch ? 0 : trace::kFailed,
                iterator->loader.load(std::memory_order_relaxed),
                iterator->returned.fetch_add(has_batch, std::memory_order_relaxed));
  context::maybe_sample(t_open_wait.scope.begin);
}

template <size_t kRow>
struct WaitBegins {
  static constexpr int kFlags = kOneObject;
  static PyObject* call(PyObject* original, PyObject* self) {
    Iterator* iterator = record::is_recording() ? find_iterator_over(self) : nullptr;
    if (iterator) {
      const uint32_t loader = iterator->loader.load(std::memory_order_relaxed);
      t_open_wait = {iterator, record::enter(id(kRows[kRow].op), loader)};
    }
    return g_api.PyObject_CallFunctionObjArgs(original, self, nullptr);
  }
};

template <size_t, bool kHasBatch>
struct AfterWait {
  static constexpr int kFlags = kVarArgs | kKeywords;
  static PyObject* call(PyObject* original, PyObject* args, PyObject* keywords) {
    end_wait(kHasBatch);
    return g_api.PyObject_Call(original, args, keywords);
  }
};
template <size_t kRow>
struct WaitEnds : AfterWait<kRow, true> {};
template <size_t kRow>
struct EpochEnds : AfterWait<kRow, false> {};

// EpochIterator.__init__(self, x, ...)
template <size_t>
struct KerasData {
  static constexpr int kFlags = kVarArgs | kKeywords;
  static PyObject* call(PyObject* original, PyObject* args, PyObject* keywords) {
    if (PyObject* data = argument(args, keywords, 1, "x")) {
      const ErrorGuard guard;
      base::Text<sizeof g_keras_data> name;
      name.add(class_name(data).c_str());
      if (const long workers = long_attribute(data, "workers", -1); workers >= 0)
        name.add(" (PyDataset, workers=").add(static_cast<uint64_t>(workers)).add(')');
      std::memcpy(g_keras_data, name.c_str(), name.size() + 1);
    }
    return g_api.PyObject_Call(original, args, keywords);
  }
};

// --- the table -------------------------------------------------------------------------------------------

struct Method {
  char class_name[32] = {};
  Wrapper wrapper;
  constexpr Method(const char* name, AnyFunction function, int flags) noexcept
      : wrapper{nullptr, {nullptr, function, flags, nullptr}} {
    size_t at = 0;
    for (; name[at] != '.'; ++at) class_name[at] = name[at];
    wrapper.method.name = name + at + 1;
  }
};
#define GW_METHOD(identifier, op_class, name, module, framework, kind) identifier##_row,
enum : size_t {
#include "hooks/python/frameworks.def"
};
constinit Method g_methods[] = {
#define GW_METHOD(identifier, op_class, name, module, framework, kind) \
  Method(name, kind<identifier##_row>::call, kind<identifier##_row>::kFlags),
#include "hooks/python/frameworks.def"
};

}  // namespace

void bind_resource(uint32_t iterator, const void* resource) noexcept {
  for (Iterator& other : g_iterators) {  // an address used again
    const void* expected = resource;
    other.resource.compare_exchange_strong(expected, nullptr, std::memory_order_relaxed);
  }
  if (iterator) g_iterators[(iterator - 1) % kIterators].resource.store(resource, std::memory_order_release);
}

bool is_waited_for(const void* resource) noexcept {
  const Iterator* iterator = find_bound(resource);
  return iterator && iterator->waits.load(std::memory_order_relaxed) > 0;
}

void note_graph_wait(const void* resource, uint64_t begin, uint64_t end, bool is_exhausted) noexcept {
  Iterator* iterator = find_bound(resource);
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

bool is_framework_module(const char* name) noexcept {
  for (const Row& row : kRows) {
    if (std::strcmp(row.module, name) == 0) return true;
  }
  return false;
}

void prepare_framework(const char* name, PyObject* module) noexcept {
  for (size_t i = 0; i < kRowCount; ++i) {
    if (std::strcmp(kRows[i].module, name) != 0) continue;
    g_methods[i].wrapper.class_name = g_methods[i].class_name;
    wrap_method(module, g_methods[i].wrapper);
    g_has_met.store(true, std::memory_order_relaxed);
  }
}

void prepare_loaded_frameworks() noexcept {
  for (const Row& row : kRows) {
    if (PyObject* module = loaded_module(row.module)) prepare_framework(row.module, module);
  }
}

bool has_met_framework() noexcept {
  return g_has_met.load(std::memory_order_relaxed);
}

}  // namespace gpuwatch::hooks::python
