// SPDX-License-Identifier: Apache-2.0
// torch.utils.data._utils.fetch: the fetch of one batch, in a worker or inline in next(), and the collate
// within it, with the sizes of its samples. A worker process is recognized by its first fetcher.
#include "hooks/python/pytorch/fetch.h"

#include "hooks/core/evidence.h"
#include "hooks/core/operations.h"
#include "hooks/python/frameworks/versions.h"
#include "hooks/python/interpreter/wrap.h"
#include "hooks/python/pytorch/apply_to_process.h"
#include "hooks/python/pytorch/batch_mask.h"
#include "hooks/python/pytorch/batch_shape.h"
#include "hooks/python/pytorch/iterators.h"
#include "hooks/python/pytorch/thread_usage.h"
#include "hooks/stacks/stall_stacks.h"
#include "libinject/base/compiler.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/fork_epoch.h"
#include "libinject/trace/layout.h"

namespace gpuwatch::hooks::python {

namespace {

// The worker loop of this thread: the only one of its process, or one of several in versions whose workers
// are threads.
struct WorkerLoop {
  uint32_t epoch = 0;
  uint32_t loader = 0;   // 0 in spawned workers: the parent's WorkerInfo names the pid
  uint32_t fetches = 0;  // in this epoch
};
GW_TLS WorkerLoop t_worker;

void note_worker_epoch() noexcept {
  const long index = worker_index();
  if (index < 0 || !begin_recording("a DataLoader worker")) return;
  put_versions();
  t_worker.fetches = 0;
  const uint32_t epoch = runtime::epoch();
  if (t_worker.epoch == epoch) return;  // persistent worker: another epoch
  t_worker.epoch = epoch;
  t_worker.loader = t_activity.constructing ? t_activity.constructing->loader_id() : 0;
  t_activity = LoaderActivity{};  // the parent's
  stacks::t_is_waiting_for_workers = false;
  apply_to_worker();
  record::mark(id(Op::python_worker_start), 0, t_worker.loader, static_cast<uint32_t>(index));
}

uint8_t failed_if_null(const PyObject* result) noexcept {
  return result ? 0 : trace::kFailed;
}

uint32_t current_loader() noexcept {
  if (t_activity.waiting_in) return t_activity.waiting_in->loader_id();
  return t_worker.epoch == runtime::epoch() ? t_worker.loader : 0;
}

// Lengths of samples vary little over a run: after the first batches of a thread every 17th is enough. 17 is
// prime, so that loaders that take turns are all seen.
constexpr uint32_t kEachUntil = 64;
constexpr uint32_t kOneIn = 17;
GW_TLS uint32_t t_collated = 0;

bool is_measured(uint32_t number) noexcept {
  return number < kEachUntil || number % kOneIn == 0;
}

SampleSizes sizes_of(PyObject* args) noexcept {
  const record::Quiet quiet;
  const Ref samples = g_api.PyTuple_Size(args) > 0 ? item(args, 0) : Ref();
  return SampleSizes(samples.get());
}

// By the mask where there is one: samples that came padded have their length in nothing else.
void put_shape(const SampleSizes& sizes, PyObject* batch) noexcept {
  trace::ShapeDetail shape;
  uint32_t samples = 0;
  {
    const record::Quiet quiet;
    if (!lengths_by_mask(batch, &shape, &samples)) {
      if (!sizes.is_known() || !sizes.compare(batch, &shape)) return;
      samples = sizes.samples();
    }
  }
  static_assert(carries<trace::ShapeDetail>(Op::python_batch_shape));
  record::mark(id(Op::python_batch_shape), 0, current_loader(), samples, shape);
}

uint32_t size_of(PyObject* batch) noexcept {
  const record::Quiet quiet;
  return tensors_in(batch);
}

// Replaces the user's collate_fn, which is `original`, in the fetcher.
PyObject* collate(PyObject* original, PyObject* args, PyObject* keywords) {
  if (!record::is_recording()) return g_api.PyObject_Call(original, args, keywords);
  const bool measures = is_measured(t_collated++);
  const SampleSizes sizes = measures ? sizes_of(args) : SampleSizes(nullptr);
  const record::Scope scope = record::enter(id(Op::python_collate));
  PyObject* result = g_api.PyObject_Call(original, args, keywords);
  const uint32_t size = result && measures ? size_of(result) : 0;
  record::leave(scope, failed_if_null(result), current_loader(), size);
  if (result && measures) put_shape(sizes, result);
  return result;
}
constinit MethodDef g_collate = {"collate_fn", collate, kVarArgs | kKeywords, nullptr};

void wrap_collate(PyObject* fetcher) noexcept {
  const record::Quiet quiet;
  const ErrorGuard guard;
  const Ref original = attribute(fetcher, "collate_fn");
  if (!original || original.is_none() || is_function_of(original.get(), g_collate)) return;
  const Ref ours(g_api.PyCFunction_NewEx(&g_collate, original.get(), nullptr));
  if (!ours || g_api.PyObject_SetAttrString(fetcher, "collate_fn", ours.get()) != 0) g_api.PyErr_Clear();
}

// _BaseDatasetFetcher.__init__(self, dataset, auto_collation, collate_fn, drop_last)
PyObject* construct(PyObject* original, PyObject* args, PyObject* keywords) {
  PyObject* result = g_api.PyObject_Call(original, args, keywords);
  if (!result) return nullptr;
  const bool is_inline = t_activity.constructing && t_activity.epoch == runtime::epoch();
  if (!is_inline) note_worker_epoch();
  PyObject* self = argument(args, keywords, 0, "self");
  if (self && record::is_recording()) wrap_collate(self);
  return result;
}

// fetch(self, possibly_batched_index)
PyObject* fetch(PyObject* original, PyObject* args, PyObject* keywords) {
  if (!record::is_recording()) return g_api.PyObject_Call(original, args, keywords);
  const uint32_t loader = current_loader();
  const uint32_t ordinal = t_activity.waiting_in ? t_activity.waiting_in->returned : t_worker.fetches++;
  Iterator* const outer = t_activity.fetching_for;
  t_activity.fetching_for = t_activity.waiting_in;
  const record::Scope scope = record::enter(id(Op::python_fetch), loader);
  const ThreadUsage usage;  // within the scope: it cannot count more time than the scope has
  PyObject* result = g_api.PyObject_Call(original, args, keywords);
  const ThreadUsage::Amounts used = usage.since();
  static_assert(carries<trace::CpuDetail>(Op::python_fetch));
  record::leave(scope, failed_if_null(result), loader, ordinal, used.cpu, used.io);
  t_activity.fetching_for = outer;
  return result;
}

constexpr char kFetchDoc[] = "fetch($self, possibly_batched_index)\n--\n\n";
constexpr char kConstructDoc[] = "__init__($self, dataset, auto_collation, collate_fn, drop_last)\n--\n\n";
constinit Wrapper g_construct = {"_BaseDatasetFetcher",
                                 {"__init__", construct, kVarArgs | kKeywords, kConstructDoc}};
constinit Wrapper g_fetchers[] = {
    {"_MapDatasetFetcher", {"fetch", fetch, kVarArgs | kKeywords, kFetchDoc}},
    {"_IterableDatasetFetcher", {"fetch", fetch, kVarArgs | kKeywords, kFetchDoc}},
};

}  // namespace

Parts wrap_fetchers(PyObject* module) noexcept {
  bool is_complete = wrap_method(module, g_construct);
  for (Wrapper& fetcher : g_fetchers) is_complete &= wrap_method(module, fetcher);
  return is_complete ? 0 : kFetches;
}

}  // namespace gpuwatch::hooks::python
