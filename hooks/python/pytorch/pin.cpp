// SPDX-License-Identifier: Apache-2.0
// torch.utils.data._utils.pin_memory: a batch copied into pinned memory, in the loader's pin thread or,
// without workers, inline in next(). The function calls itself for the parts of a batch; only the outermost
// call is recorded. Only the pin thread knows which batch it is, from the item it took off the workers'
// queue: it gets a proxy for that queue, which forwards everything and reads the index of each item.
#include "hooks/python/pytorch/pin.h"

#include "hooks/core/operations.h"
#include "hooks/python/interpreter/wrap.h"
#include "hooks/python/pytorch/apply_non_blocking.h"
#include "hooks/python/pytorch/iterators.h"
#include "libinject/record/recorder.h"
#include "libinject/trace/layout.h"

namespace gpuwatch::hooks::python {

namespace {

constinit PyObject* g_pin_memory = nullptr;  // the originals
constinit PyObject* g_pin_memory_loop = nullptr;

// This thread as a pin thread.
struct PinThread {
  uint32_t loader = 0;  // 0: it is none
  uint32_t index = 0;   // of the batch in hand
  bool has_batch = false;
};
GW_TLS PinThread t_thread;
GW_TLS bool t_is_pinning = false;

struct Pinned {
  uint32_t loader;  // 0: nothing of a loader's
  uint32_t index;
};

// What a call of pin_memory() is about. The dataset's own code may call it, too.
Pinned batch_in_hand() noexcept {
  if (t_thread.loader) return {t_thread.has_batch ? t_thread.loader : 0, t_thread.index};
  const Iterator* inline_in = t_activity.waiting_in;
  if (!inline_in || inline_in == t_activity.fetching_for) return {0, 0};
  return {inline_in->loader_id(), inline_in->returned};
}

// pin_memory(data, device=None)
PyObject* pin_memory(PyObject*, PyObject* args, PyObject* keywords) {
  const Pinned pinned = t_is_pinning || !record::is_recording() ? Pinned{0, 0} : batch_in_hand();
  if (!pinned.loader) {
    PyObject* part = g_api.PyObject_Call(g_pin_memory, args, keywords);
    if (part && t_is_pinning) mark_pinned(part);
    return part;
  }
  t_is_pinning = true;
  const record::Scope scope = record::enter(id(Op::python_pin_batch), pinned.loader);
  PyObject* result = g_api.PyObject_Call(g_pin_memory, args, keywords);
  record::leave(scope, result ? 0 : trace::kFailed, pinned.loader, pinned.index);
  t_is_pinning = false;
  if (result) mark_pinned(result);  // a batch of one tensor
  return result;
}

// get(timeout) of the proxy; `original` is the queue's.
PyObject* get(PyObject* original, PyObject* args, PyObject* keywords) {
  t_thread.has_batch = false;
  PyObject* result = g_api.PyObject_Call(original, args, keywords);
  if (!result) return nullptr;
  const Message message = read_message(result);
  t_thread.has_batch = message.index >= 0 && !message.is_end;
  t_thread.index = static_cast<uint32_t>(message.index);
  return result;
}
constinit MethodDef g_get = {"get", get, kVarArgs | kKeywords, nullptr};

// Everything else is read from the queue itself (PEP 562).
PyObject* get_attribute(PyObject* queue, PyObject* name) {
  return g_api.PyObject_GetAttr(queue, name);
}
constinit MethodDef g_get_attribute = {"__getattr__", get_attribute, kOneObject, nullptr};

Ref proxy_for(PyObject* queue) noexcept {
  const Ref original = attribute(queue, "get");
  const Ref get(original ? g_api.PyCFunction_NewEx(&g_get, original.get(), nullptr) : nullptr);
  const Ref others(g_api.PyCFunction_NewEx(&g_get_attribute, queue, nullptr));
  Ref proxy(g_api.PyModule_New("gpuwatch"));
  if (get && others && proxy && g_api.PyObject_SetAttrString(proxy.get(), "get", get.get()) == 0 &&
      g_api.PyObject_SetAttrString(proxy.get(), "__getattr__", others.get()) == 0) {
    return proxy;
  }
  g_api.PyErr_Clear();
  return Ref();
}

// `args` with another first one.
Ref with_first(PyObject* args, Ref first) noexcept {
  const SsizeT size = g_api.PyTuple_Size(args);
  Ref changed(g_api.PyTuple_New(size));
  if (!changed) {
    g_api.PyErr_Clear();
    return Ref();
  }
  g_api.PyTuple_SetItem(changed.get(), 0, first.release());
  for (SsizeT i = 1; i < size; ++i) {
    g_api.PyTuple_SetItem(changed.get(), i, Ref::of_borrowed(g_api.PyTuple_GetItem(args, i)).release());
  }
  return changed;
}

// The arguments for a pin thread whose loader is known; empty if it must run as it is.
Ref watched_arguments(PyObject* args) noexcept {
  const record::Quiet quiet;
  if (!record::is_recording() || g_api.PyTuple_Size(args) < 1) return Ref();
  PyObject* queue = g_api.PyTuple_GetItem(args, 0);
  const Iterator* iterator = find_iterator_with("_worker_result_queue", queue);
  if (!iterator || !iterator->loader_id()) return Ref();
  Ref proxy = proxy_for(queue);
  if (!proxy) return Ref();
  t_thread.loader = iterator->loader_id();
  return with_first(args, static_cast<Ref&&>(proxy));
}

// _pin_memory_loop(in_queue, out_queue, device_id, done_event, device): all of a pin thread's life
PyObject* pin_memory_loop(PyObject*, PyObject* args, PyObject* keywords) {
  const Ref watched = watched_arguments(args);
  PyObject* result = g_api.PyObject_Call(g_pin_memory_loop, watched ? watched.get() : args, keywords);
  t_thread = PinThread{};
  return result;
}

constexpr int kCall = kVarArgs | kKeywords;
constinit MethodDef g_wrapped_pin_memory = {"pin_memory", pin_memory, kCall,
                                            "pin_memory(data, device=None)\n--\n\n"};
constinit MethodDef g_wrapped_loop = {
    "_pin_memory_loop", pin_memory_loop, kCall,
    "_pin_memory_loop(in_queue, out_queue, device_id, done_event, device)\n--\n\n"};

}  // namespace

Parts wrap_pinning(PyObject* module) noexcept {
  bool is_complete = wrap_function(module, g_wrapped_pin_memory, g_pin_memory);
  is_complete &= wrap_function(module, g_wrapped_loop, g_pin_memory_loop);
  return is_complete ? 0 : kPinning;
}

}  // namespace gpuwatch::hooks::python
