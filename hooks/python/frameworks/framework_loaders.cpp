// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/frameworks/framework_loaders.h"

#include <atomic>
#include <cstring>

#include "hooks/core/evidence.h"
#include "hooks/core/operations.h"
#include "hooks/python/frameworks/framework.h"
#include "hooks/python/frameworks/framework_iterators.h"
#include "hooks/python/frameworks/tf_eager.h"
#include "hooks/python/frameworks/tf_graph_waits.h"
#include "hooks/python/frameworks/tf_stages.h"
#include "hooks/python/frameworks/versions.h"
#include "hooks/python/interpreter/look_again.h"
#include "hooks/python/interpreter/wrap.h"
#include "hooks/stacks/stall_stacks.h"
#include "hooks/stacks/training_stacks.h"
#include "libinject/context/sampler.h"
#include "libinject/record/recorder.h"
#include "libinject/trace/layout.h"

namespace gpuwatch::hooks::python {

namespace {

struct Row {
  const char* name;  // "Class.method"
  const char* module;
  const char* framework;
  Op op;
};
constexpr Row kRows[] = {
#define GW_FRAMEWORK_METHOD(identifier, op_class, name, module, framework, kind) \
  {name, module, framework, Op::identifier},
#include "libinject/trace/frameworks.def"
};
constexpr size_t kRowCount = sizeof kRows / sizeof kRows[0];

constinit std::atomic<bool> g_has_met{false};

// A process that computes may be one that trains and whose loader is not known.
GW_COLD void watch_computing(const char* framework) noexcept {
  const record::Quiet quiet;
  const ErrorGuard guard;
  read_versions();
  stacks::watch_computing_thread(framework, write_versions);
}

// This thread has computed with the framework, so it is the one that trains.
void note_computing(const char* framework) noexcept {
  if (record::is_recording()) {
    put_versions();
    if (!stacks::is_watching_computing_thread()) stacks::note_training_thread();
  } else if (stacks::may_watch_computing_thread()) {
    watch_computing(framework);
  }
}

// --- wrappers --------------------------------------------------------------------------------------------

// Not noexcept: a thread that ends in the job's code unwinds through here.
PyObject* wait_in(Op op, FrameworkIterator& iterator, PyObject* original, PyObject* self) {
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
    FrameworkIterator* iterator =
        record::is_recording() && !t_framework.waiting ? find_iterator_over(self) : nullptr;
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
    FrameworkIterator* iterator = find_iterator_over(self);
    if (!iterator) {
      iterator = &start_iterator(self);
      iterator->loader.store(describe_loader(kRows[kRow].framework, self, nullptr)->fields.id,
                             std::memory_order_relaxed);
    }
    PyObject* result = wait_in(kRows[kRow].op, *iterator, original, self);
    if (!result)
      iterator->returned.store(
          0, std::memory_order_relaxed);  // StopIteration: the next batch is the first of an epoch
    return result;
  }
};

// Calls the constructor of an iterator, in which an epoch begins. `self` null: not recorded.
PyObject* construct_iterator(const Row& row, PyObject* self, PyObject* dataset, PyObject* original,
                             PyObject* args, PyObject* keywords) {
  if (!self || t_framework.iterator || !begin_recording("a framework's loader")) {
    return g_api.PyObject_Call(original, args, keywords);
  }
  FrameworkIterator& iterator = start_iterator(self);
  t_framework.iterator = number_of(iterator);
  const record::Scope scope = record::enter(id(row.op));
  PyObject* result = g_api.PyObject_Call(original, args, keywords);
  t_framework.iterator = 0;
  FrameworkLoader* known = result ? describe_loader(row.framework, self, dataset) : nullptr;
  if (known) {
    iterator.loader.store(known->fields.id, std::memory_order_release);
    record::leave(scope, 0, known->fields.id, known->epochs++);
  } else {
    forget_iterator(self);
    record::leave_unrecorded(scope);
  }
  return result;
}

template <size_t kRow>
struct Made {
  static constexpr int kFlags = kVarArgs | kKeywords;
  static PyObject* call(PyObject* original, PyObject* args, PyObject* keywords) {
    PyObject* self = argument(args, keywords, 0, "self");
    return construct_iterator(kRows[kRow], self, nullptr, original, args, keywords);
  }
};

template <size_t kRow>
struct MadeOverDataset {
  static constexpr int kFlags = kVarArgs | kKeywords;
  static PyObject* call(PyObject* original, PyObject* args, PyObject* keywords) {
    PyObject* self = argument(args, keywords, 0, "self");
    PyObject* dataset = argument(args, keywords, 1, "dataset");
    if (!dataset || dataset == g_api.none) {  // a graph's view of an iterator that exists
      forget_iterator(self);
      self = nullptr;
    }
    return construct_iterator(kRows[kRow], self, dataset, original, args, keywords);
  }
};

constinit LookAgain g_look;

GW_COLD void look() noexcept {
  const record::Quiet quiet;
  const ErrorGuard guard;
  note_eager_switches();
}

template <size_t>
struct GraphCall {
  static constexpr int kFlags = kVarArgs | kKeywords;
  static PyObject* call(PyObject* original, PyObject* args, PyObject* keywords) {
    ++t_framework.graph_calls;
    PyObject* result = g_api.PyObject_Call(original, args, keywords);
    if (--t_framework.graph_calls == 0) take_graph_waits();
    note_computing("TensorFlow");
    const uint64_t now = base::ticks();
    if (g_look.is_due(now)) look();
    context::maybe_sample(now);  // fit() asks for its batches in the graph, on a thread of its pool
    return result;
  }
};

// Called where JAX compiles what it will compute; the compiled calls themselves do not pass through Python.
template <size_t>
struct JaxCompiles {
  static constexpr int kFlags = kVarArgs | kKeywords;
  static PyObject* call(PyObject* original, PyObject* args, PyObject* keywords) {
    PyObject* result = g_api.PyObject_Call(original, args, keywords);
    note_jax_compiles();
    note_computing("JAX");
    return result;
  }
};

// The wait in a generator, which calls methods of its loader before and after it. If the wait raised, no
// method is called after it, and its record is dropped.
struct OpenWait {
  FrameworkIterator* iterator = nullptr;
  record::Scope scope;
};
GW_TLS OpenWait t_open_wait;

void end_wait(bool has_batch) noexcept {
  FrameworkIterator* iterator = t_open_wait.iterator;
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
    FrameworkIterator* iterator = record::is_recording() ? find_iterator_over(self) : nullptr;
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
      base::Text<128> name;
      name.add(class_name(data).c_str());
      if (const long workers = long_attribute(data, "workers", -1); workers >= 0)
        name.add(" (PyDataset, workers=").add(static_cast<uint64_t>(workers)).add(')');
      note_keras_data(name.c_str());
    }
    return g_api.PyObject_Call(original, args, keywords);
  }
};

// TensorFlowTrainer.make_train_function(self, force=False)
template <size_t>
struct KerasTrains {
  static constexpr int kFlags = kVarArgs | kKeywords;
  static PyObject* call(PyObject* original, PyObject* args, PyObject* keywords) {
    if (PyObject* model = argument(args, keywords, 0, "self")) note_keras_model(model);
    return g_api.PyObject_Call(original, args, keywords);
  }
};

// __init__ or __post_init__ of an object in which the user configures the framework's loaders.
template <size_t kRow>
struct SettingsMade {
  static constexpr int kFlags = kVarArgs | kKeywords;
  static PyObject* call(PyObject* original, PyObject* args, PyObject* keywords) {
    {
      const record::Quiet quiet;
      note_settings(kRows[kRow].framework);
    }
    return g_api.PyObject_Call(original, args, keywords);
  }
};

// DatasetV2.__init__(self, variant_tensor)
template <size_t>
struct StageMade {
  static constexpr int kFlags = kVarArgs | kKeywords;
  static PyObject* call(PyObject* original, PyObject* args, PyObject* keywords) {
    PyObject* result = g_api.PyObject_Call(original, args, keywords);
    const record::Quiet quiet;
    if (PyObject* self = result ? argument(args, keywords, 0, "self") : nullptr) note_stage(self);
    return result;
  }
};

// FuncRegistry.insert(self, func)
template <size_t>
struct PythonInStage {
  static constexpr int kFlags = kVarArgs | kKeywords;
  static PyObject* call(PyObject* original, PyObject* args, PyObject* keywords) {
    if (PyObject* function = argument(args, keywords, 1, "func")) {
      const record::Quiet quiet;
      note_python_function(function);
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
#define GW_FRAMEWORK_METHOD(identifier, op_class, name, module, framework, kind) identifier##_row,
enum : size_t {
#include "libinject/trace/frameworks.def"
};
constinit Method g_methods[] = {
#define GW_FRAMEWORK_METHOD(identifier, op_class, name, module, framework, kind) \
  Method(name, kind<identifier##_row>::call, kind<identifier##_row>::kFlags),
#include "libinject/trace/frameworks.def"
};

}  // namespace

bool is_framework_module(const char* name) noexcept {
  for (const Row& row : kRows) {
    if (std::strcmp(row.module, name) == 0) return true;
  }
  return false;
}

void wrap_framework(const char* name, PyObject* module) noexcept {
  for (size_t i = 0; i < kRowCount; ++i) {
    if (std::strcmp(kRows[i].module, name) != 0) continue;
    g_methods[i].wrapper.class_name = g_methods[i].class_name;
    wrap_method(module, g_methods[i].wrapper);
    g_has_met.store(true, std::memory_order_relaxed);
  }
}

void wrap_loaded_frameworks() noexcept {
  for (const Row& row : kRows) {
    if (PyObject* module = loaded_module(row.module)) wrap_framework(row.module, module);
  }
}

bool has_met_framework() noexcept {
  return g_has_met.load(std::memory_order_relaxed);
}

}  // namespace gpuwatch::hooks::python
