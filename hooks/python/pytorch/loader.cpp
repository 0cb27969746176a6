// SPDX-License-Identifier: Apache-2.0
// torch.utils.data.dataloader: when an epoch begins, when an index is sent and a batch received, and how
// long next() waits. The names are the same from torch 1.13 to 2.13.
#include "hooks/python/pytorch/loader.h"

#include "hooks/core/evidence.h"
#include "hooks/core/operations.h"
#include "hooks/python/frameworks/versions.h"
#include "hooks/python/interpreter/garbage.h"
#include "hooks/python/interpreter/wrap.h"
#include "hooks/python/pytorch/apply_to_loader.h"
#include "hooks/python/pytorch/apply_to_process.h"
#include "hooks/python/pytorch/iterators.h"
#include "hooks/python/pytorch/loader_info.h"
#include "hooks/stacks/stall_stacks.h"
#include "hooks/stacks/worker_stacks.h"
#include "libinject/base/errno_guard.h"
#include "libinject/context/sampler.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/fork_epoch.h"
#include "libinject/trace/layout.h"

namespace gpuwatch::hooks::python {

namespace {

constinit Name g_rcvd_idx("_rcvd_idx");
constinit Name g_send_idx("_send_idx");
constinit Name g_task_info("_task_info");

uint8_t failed_if_null(const PyObject* result) noexcept {
  return result ? 0 : trace::kFailed;
}

// Which batch next() has just returned. Workers' batches carry the index they were sent with; those of a
// loader without workers are counted.
uint32_t returned_index(PyObject* self, const Iterator& iterator) noexcept {
  if (!iterator.loader || iterator.loader->num_workers <= 0) return iterator.returned;
  if (!iterator.loader->is_in_order) return iterator.last_received;
  const long received = long_attribute(self, g_rcvd_idx, 0);
  return received > 0 ? static_cast<uint32_t>(received - 1) : iterator.returned;
}

// _BaseDataLoaderIter.__next__(self)
PyObject* next(PyObject* original, PyObject* self) {
  if (!record::is_recording()) return g_api.PyObject_CallFunctionObjArgs(original, self, nullptr);
  Iterator* iterator = find_iterator(self);
  const uint32_t loader = iterator ? iterator->loader_id() : 0;
  Iterator* const outer = t_activity.waiting_in;
  t_activity.waiting_in = iterator;
  stacks::note_training_thread();
  const stacks::WatchWorkers watch(
      iterator && iterator->loader && iterator->loader->num_workers > 0 ? self : nullptr);
  const record::Scope scope = record::enter(id(Op::python_loader_next), loader);
  PyObject* result = g_api.PyObject_CallFunctionObjArgs(original, self, nullptr);
  uint32_t index = iterator ? iterator->returned : 0;
  if (result && iterator) index = returned_index(self, *iterator);
  record::leave(scope, failed_if_null(result), loader, index);
  context::maybe_sample(scope.begin);
  t_activity.waiting_in = outer;
  // The dataset's code may have constructed iterators that took this one's entry.
  if (!iterator || iterator->object != self) return result;
  iterator->is_exhausted = !result;
  if (result) ++iterator->returned;
  return result;
}

void put_workers(PyObject* self, uint32_t loader) noexcept {
  const record::Quiet quiet;
  const ErrorGuard guard;
  const Ref workers = attribute(self, "_workers");
  if (!workers) return;
  for (SsizeT i = 0;; ++i) {
    const Ref worker = item(workers.get(), i);
    if (!worker) return;
    trace::WorkerInfoFields fields;
    fields.loader = loader;
    fields.worker = static_cast<uint32_t>(i);
    fields.pid = fields.thread = static_cast<uint32_t>(long_attribute(worker.get(), "pid", 0));
    if (!fields.pid) continue;  // a thread: its batches are identified by their indices alone
    record::put(fields);
    stacks::note_worker(self, fields.worker, fields.pid);
    context::watch_child(fields.pid);
  }
}

// *.__init__(self, loader) of an iterator: begins the first epoch, and forks the workers.
PyObject* construct(PyObject* original, PyObject* args, PyObject* keywords) {
  PyObject* self = argument(args, keywords, 0, "self");
  PyObject* dataloader = argument(args, keywords, 1, "loader");
  const Iterator* outer = t_activity.constructing;
  const bool is_inner = outer && outer->object == self && t_activity.epoch == runtime::epoch();
  if (!self || !dataloader || is_inner || !begin_recording("a DataLoader")) {
    return g_api.PyObject_Call(original, args, keywords);
  }
  put_versions();
  apply_to_process();
  Loader* loader = identify(dataloader);
  if (!loader) return g_api.PyObject_Call(original, args, keywords);
  Iterator* iterator = add_iterator(self, loader);
  const LoaderActivity before = t_activity;
  t_activity.constructing = iterator;
  t_activity.epoch = runtime::epoch();
  const uint32_t loader_id = loader->id;
  const uint32_t epoch = loader->epochs++;
  const record::Scope scope = record::enter(id(Op::python_loader_start), loader_id);
  PyObject* result = g_api.PyObject_Call(original, args, keywords);
  record::leave(scope, failed_if_null(result), loader_id, epoch);
  t_activity = before;
  if (result && loader->num_workers > 0) put_workers(self, loader_id);
  return result;
}

// _MultiProcessingDataLoaderIter._reset(self, loader, first_iter=False): another epoch of persistent
// workers.
PyObject* reset(PyObject* original, PyObject* args, PyObject* keywords) {
  Iterator* iterator = find_iterator(argument(args, keywords, 0, "self"));
  const bool is_first = iterator && t_activity.constructing == iterator;
  if (!iterator || !iterator->loader || is_first || !record::is_recording()) {
    return g_api.PyObject_Call(original, args, keywords);
  }
  iterator->returned = 0;
  iterator->is_exhausted = false;
  const uint32_t loader = iterator->loader_id();
  const uint32_t epoch = iterator->loader->epochs++;
  const record::Scope scope = record::enter(id(Op::python_loader_start), loader);
  PyObject* result = g_api.PyObject_Call(original, args, keywords);
  record::leave(scope, failed_if_null(result), loader, epoch);
  return result;
}

// The worker that task `index` was given to: _task_info[index][0].
uint32_t worker_of_task(PyObject* self, long index) noexcept {
  const Ref tasks = attribute(self, g_task_info);
  const Ref key(g_api.PyLong_FromLong(index));
  if (!tasks || !key) return 0;
  const Ref task(g_api.PyObject_GetItem(tasks.get(), key.get()));
  const Ref worker = task ? item(task.get(), 0) : Ref();
  g_api.PyErr_Clear();
  return worker ? static_cast<uint32_t>(to_long(worker.get(), 0)) : 0;
}

// _try_put_index(self): sends one index, or none when the sampler is exhausted.
PyObject* try_put_index(PyObject* original, PyObject* self) {
  Iterator* iterator = record::is_recording() ? find_iterator(self) : nullptr;
  if (!iterator) return g_api.PyObject_CallFunctionObjArgs(original, self, nullptr);
  const long before = long_attribute(self, g_send_idx, 0);
  PyObject* result = g_api.PyObject_CallFunctionObjArgs(original, self, nullptr);
  if (!result || long_attribute(self, g_send_idx, 0) <= before) return result;
  trace::CallDetail detail(0, 0, worker_of_task(self, before), 0, 0, 0);
  static_assert(carries<trace::CallDetail>(Op::python_index_sent));
  record::mark(id(Op::python_index_sent), 0, iterator->loader_id(), static_cast<uint32_t>(before), detail);
  return result;
}

// result is (True, message) if something came.
void note_received(PyObject* result, Iterator& iterator) noexcept {
  const Ref is_success = item(result, 0);
  if (!is_success || g_api.PyObject_IsTrue(is_success.get()) != 1) return;
  const Ref object = item(result, 1);
  const Message message = object ? read_message(object.get()) : Message();
  if (message.index < 0) return;
  iterator.last_received = static_cast<uint32_t>(message.index);
  record::mark(id(Op::python_batch_received), message.is_end ? trace::kFailed : 0, iterator.loader_id(),
               iterator.last_received);
}

// _try_get_data(self, timeout=5.0)
PyObject* try_get_data(PyObject* original, PyObject* args, PyObject* keywords) {
  PyObject* result = g_api.PyObject_Call(original, args, keywords);
  if (!result || !record::is_recording()) return result;
  if (Iterator* iterator = find_iterator(argument(args, keywords, 0, "self")))
    note_received(result, *iterator);
  return result;
}

// The number of workers is checked again when an epoch begins, which is another line of the user's.
bool is_called_by_constructor() noexcept {
  const ErrorGuard guard;
  PyObject* frame = g_api.PyEval_GetFrame();
  const Ref code = frame ? attribute(frame, "f_code") : Ref();
  const Ref function = code ? attribute(code.get(), "co_name") : Ref();
  const char* name = text(function.get());
  return name && std::strcmp(name, "__init__") == 0;
}

// DataLoader.check_worker_number_rationality(self) is the last thing the constructor calls. The constructor
// itself stays as it is: Lightning and others read its signature.
PyObject* check_worker_number(PyObject* original, PyObject* self) {
  if (is_called_by_constructor()) {
    const record::Quiet quiet;
    remember_constructor(self);
    apply_to_loader(self);
  }
  return g_api.PyObject_CallFunctionObjArgs(original, self, nullptr);
}

constexpr int kCall = kVarArgs | kKeywords;
constexpr char kConstructDoc[] = "__init__($self, loader)\n--\n\n";
constinit Wrapper g_next = {"_BaseDataLoaderIter", {"__next__", next, kOneObject, "__next__($self)\n--\n\n"}};
constinit Wrapper g_try_put_index = {
    "_MultiProcessingDataLoaderIter",
    {"_try_put_index", try_put_index, kOneObject, "_try_put_index($self)\n--\n\n"}};
constinit Wrapper g_check_worker_number = {"DataLoader",
                                           {"check_worker_number_rationality", check_worker_number,
                                            kOneObject, "check_worker_number_rationality($self)\n--\n\n"}};
constinit Wrapper g_constructors[] = {
    {"_BaseDataLoaderIter", {"__init__", construct, kCall, kConstructDoc}},
    {"_SingleProcessDataLoaderIter", {"__init__", construct, kCall, kConstructDoc}},
    {"_MultiProcessingDataLoaderIter", {"__init__", construct, kCall, kConstructDoc}},
};
constexpr char kResetDoc[] = "_reset($self, loader, first_iter=False)\n--\n\n";
constinit Wrapper g_reset = {"_MultiProcessingDataLoaderIter", {"_reset", reset, kCall, kResetDoc}};
constinit Wrapper g_try_get_data = {
    "_MultiProcessingDataLoaderIter",
    {"_try_get_data", try_get_data, kCall, "_try_get_data($self, timeout=5.0)\n--\n\n"}};

// torchdata's StatefulDataLoader: its iterators inherit next() from PyTorch's base class.
constexpr char kStatefulConstructDoc[] = "__init__($self, loader, next_iter_state=None)\n--\n\n";
constexpr char kStatefulResetDoc[] = "_reset($self, loader, first_iter=False, prime_prefetch=True)\n--\n\n";
constinit Wrapper g_stateful[] = {
    {"_StatefulSingleProcessDataLoaderIter", {"__init__", construct, kCall, kStatefulConstructDoc}},
    {"_StatefulMultiProcessingDataLoaderIter", {"__init__", construct, kCall, kStatefulConstructDoc}},
    {"_StatefulMultiProcessingDataLoaderIter", {"_reset", reset, kCall, kStatefulResetDoc}},
    {"_StatefulMultiProcessingDataLoaderIter",
     {"_try_put_index", try_put_index, kOneObject, "_try_put_index($self)\n--\n\n"}},
    {"_StatefulMultiProcessingDataLoaderIter",
     {"_try_get_data", try_get_data, kCall, "_try_get_data($self, timeout=5.0)\n--\n\n"}},
};

}  // namespace

Parts wrap_stateful_loader(PyObject* module) noexcept {
  bool is_complete = true;
  for (Wrapper& wrapper : g_stateful) is_complete &= wrap_method(module, wrapper);
  return is_complete ? 0 : kStateful;
}

Parts wrap_loader(PyObject* module) noexcept {
  Parts missing = 0;
  if (!wrap_method(module, g_next)) missing |= kEpochs;
  for (Wrapper& constructor : g_constructors) {
    if (!wrap_method(module, constructor)) missing |= kEpochs;
  }
  if (!wrap_method(module, g_reset)) missing |= kFurtherEpochs;
  if (!wrap_method(module, g_try_put_index)) missing |= kIndices;
  if (!wrap_method(module, g_try_get_data)) missing |= kReceipts;
  watch_garbage_collector();                   // a loader means training
  wrap_method(module, g_check_worker_number);  // without it, locations are those of iter()
  return missing;
}

}  // namespace gpuwatch::hooks::python
