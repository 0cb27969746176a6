// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/pytorch/apply_to_process.h"

#include "hooks/core/applied_settings.h"
#include "hooks/python/interpreter/object.h"
#include "hooks/python/pytorch/apply_non_blocking.h"
#include "libinject/base/text.h"
#include "libinject/record/recorder.h"

namespace gpuwatch::hooks::python {
namespace {

using applied::Request;
using applied::Setting;

constinit bool g_is_applied = false, g_is_frozen = false;

bool call(PyObject* object, const char* function, PyObject* argument = nullptr) noexcept {
  const Ref callable = object ? attribute(object, function) : Ref();
  const Ref result(callable ? g_api.PyObject_CallFunctionObjArgs(callable.get(), argument, nullptr)
                            : nullptr);
  if (!result) g_api.PyErr_Clear();
  return static_cast<bool>(result);
}

using Words = base::Text<512>;

Words words_of(const Request& request) noexcept {
  Words words;
  words.add(name_of(request.setting)).add('=').add(request.value);
  return words;
}

void note(bool is_done, const Request& request) noexcept {
  Words words = words_of(request);
  if (is_done) return applied::note_applied(words.c_str());
  applied::note_refused(words.add(", because this version of PyTorch does not take it").c_str());
}

bool set_matmul_precision(const Request& wanted) noexcept {
  const Ref value(g_api.PyUnicode_InternFromString(wanted.value));
  return value && call(loaded_module("torch"), "set_float32_matmul_precision", value.get());
}

bool set_cudnn_benchmark(const Request& wanted) noexcept {
  PyObject* cudnn = loaded_module("torch.backends.cudnn");
  const Ref value(g_api.PyBool_FromLong(wanted.is_true()));
  const bool is_set = cudnn && g_api.PyObject_SetAttrString(cudnn, "benchmark", value.get()) == 0;
  if (!is_set) g_api.PyErr_Clear();
  return is_set;
}

}  // namespace

void apply_to_process() noexcept {
  if (!applied::is_any_requested() || g_is_applied) return;
  g_is_applied = true;
  const record::Quiet quiet;
  const ErrorGuard guard;
  if (const Request* wanted = applied::find(Setting::float32_matmul_precision, ""))
    note(set_matmul_precision(*wanted), *wanted);
  if (const Request* wanted = applied::find(Setting::cudnn_benchmark, ""))
    note(set_cudnn_benchmark(*wanted), *wanted);
  if (const Request* wanted = applied::find(Setting::non_blocking, ""))
    if (wanted->is_true()) note(copy_without_blocking(), *wanted);
}

void apply_after_first_step() noexcept {
  if (!applied::is_any_requested() || g_is_frozen) return;
  g_is_frozen = true;
  const Request* wanted = applied::find(Setting::gc_freeze, "");
  if (!wanted || !wanted->is_true()) return;
  const record::Quiet quiet;
  const ErrorGuard guard;
  PyObject* gc = loaded_module("gc");
  note(call(gc, "collect") && call(gc, "freeze"), *wanted);
}

void apply_to_worker() noexcept {
  const Request* wanted = applied::is_any_requested() ? applied::find(Setting::worker_threads, "") : nullptr;
  if (!wanted || wanted->number() < 1) return;
  const record::Quiet quiet;
  const ErrorGuard guard;
  const Ref number(g_api.PyLong_FromLong(wanted->number()));
  call(loaded_module("torch"), "set_num_threads", number.get());
  call(loaded_module("cv2"), "setNumThreads", number.get());
  // numpy's and scipy's libraries have their own threads, which only threadpoolctl finds.
  call(loaded_module("threadpoolctl"), "threadpool_limits", number.get());
  applied::note_applied_silently(words_of(*wanted).c_str());
}

}  // namespace gpuwatch::hooks::python
