// SPDX-License-Identifier: Apache-2.0
// torch.serialization: a checkpoint being written, from opening its archive to the end of its close. The
// classes of the archive are wrapped and torch.save is not, because programs pickle it and read its
// signature and source.
#include "hooks/python/pytorch/checkpoint.h"

#include "hooks/core/operations.h"
#include "hooks/python/interpreter/wrap.h"
#include "hooks/stacks/stall_stacks.h"
#include "libinject/base/compiler.h"
#include "libinject/record/recorder.h"
#include "libinject/trace/layout.h"

namespace gpuwatch::hooks::python {

namespace {

struct OpenArchive {
  const PyObject* archive = nullptr;
  record::Scope scope;
};
GW_TLS OpenArchive t_archive;

// *.__init__(self, name_or_buffer)
PyObject* open_archive(PyObject* original, PyObject* args, PyObject* keywords) {
  const record::Scope scope = record::enter(id(Op::python_checkpoint));
  PyObject* result = g_api.PyObject_Call(original, args, keywords);
  if (result) {
    t_archive = {argument(args, keywords, 0, "self"), scope};
  } else {
    record::leave(scope, trace::kFailed, 0, 0);
  }
  return result;
}

// *.__exit__(self, type, value, traceback)
PyObject* close_archive(PyObject* original, PyObject* args, PyObject* keywords) {
  PyObject* self = argument(args, keywords, 0, "self");
  PyObject* error = argument(args, keywords, 1, "type");
  PyObject* result = g_api.PyObject_Call(original, args, keywords);
  if (self && t_archive.archive == self) {
    const bool is_failed = !result || (error && error != g_api.none);
    record::leave(t_archive.scope, is_failed ? trace::kFailed : 0, 0, 0);
    stacks::maybe_record_stack(t_archive.scope);
    t_archive = {};
  }
  return result;
}

constexpr int kCall = kVarArgs | kKeywords;
constexpr char kCloseDoc[] = "__exit__($self, /, *args)\n--\n\n";
constinit Wrapper g_wrappers[] = {
    {"_open_zipfile_writer_file", {"__init__", open_archive, kCall, "__init__($self, name)\n--\n\n"}},
    {"_open_zipfile_writer_file", {"__exit__", close_archive, kCall, kCloseDoc}},
    {"_open_zipfile_writer_buffer", {"__init__", open_archive, kCall, "__init__($self, buffer)\n--\n\n"}},
    {"_open_zipfile_writer_buffer", {"__exit__", close_archive, kCall, kCloseDoc}},
};

}  // namespace

Parts wrap_checkpoints(PyObject* module) noexcept {
  bool is_complete = true;
  for (Wrapper& wrapper : g_wrappers) is_complete &= wrap_method(module, wrapper);
  return is_complete ? 0 : kCheckpoints;
}

}  // namespace gpuwatch::hooks::python
