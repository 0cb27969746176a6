// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/pytorch/apply_non_blocking.h"

#include <cstring>

#include "hooks/core/applied_settings.h"
#include "hooks/python/interpreter/wrap.h"
#include "libinject/record/recorder.h"

namespace gpuwatch::hooks::python {
namespace {

// An attribute: it goes where the tensor goes, and nowhere else, for a slice of it is another object.
constexpr char kMark[] = "_gpuwatch_pinned";

bool is_marked(PyObject* tensor) noexcept {
  const ErrorGuard guard;
  const Ref members = attribute(tensor, "__dict__");
  return members && g_api.PyDict_GetItemString(members.get(), kMark);
}

// to(device, dtype=None, non_blocking=False), to(dtype, non_blocking=False), to(other, ...),
// cuda(device=None, non_blocking=False): the first truth value among the positional ones would be
// non_blocking.
bool says_how(PyObject* args, PyObject* keywords) noexcept {
  if (keywords && g_api.PyDict_GetItemString(keywords, "non_blocking")) return true;
  for (SsizeT i = 1; i < g_api.PyTuple_Size(args); ++i)
    if (std::strcmp(class_name(g_api.PyTuple_GetItem(args, i)).c_str(), "bool") == 0) return true;
  return false;
}

PyObject* copy(PyObject* original, PyObject* args, PyObject* keywords) {
  PyObject* self = g_api.PyTuple_Size(args) > 0 ? g_api.PyTuple_GetItem(args, 0) : nullptr;
  if (!self || !is_marked(self) || says_how(args, keywords))
    return g_api.PyObject_Call(original, args, keywords);
  const Ref more(keywords ? g_api.PyDict_Copy(keywords) : g_api.PyDict_New());
  const Ref yes(g_api.PyBool_FromLong(1));
  if (!more || g_api.PyDict_SetItemString(more.get(), "non_blocking", yes.get()) != 0) {
    g_api.PyErr_Clear();
    return g_api.PyObject_Call(original, args, keywords);
  }
  return g_api.PyObject_Call(original, args, more.get());
}

constexpr int kCall = kVarArgs | kKeywords;
constinit Wrapper g_copies[] = {
    {"Tensor", {"to", copy, kCall, nullptr}},
    {"Tensor", {"cuda", copy, kCall, nullptr}},
};

}  // namespace

bool copy_without_blocking() noexcept {
  PyObject* torch = loaded_module("torch");
  bool is_done = torch != nullptr;
  for (Wrapper& wrapper : g_copies) is_done = is_done && wrap_method(torch, wrapper);
  return is_done;
}

void mark_pinned(PyObject* tensor) noexcept {
  const applied::Request* wanted = applied::find(applied::Setting::non_blocking, "");
  if (!wanted || !wanted->is_true()) return;
  const record::Quiet quiet;
  const ErrorGuard guard;
  const Ref members = attribute(tensor, "__dict__");
  const Ref is_tensor = attribute(tensor, "is_pinned");
  if (members && is_tensor && g_api.PyDict_SetItemString(members.get(), kMark, g_api.none) != 0)
    g_api.PyErr_Clear();
}

}  // namespace gpuwatch::hooks::python
