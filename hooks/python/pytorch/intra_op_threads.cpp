// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/pytorch/intra_op_threads.h"

#include "hooks/python/interpreter/look_again.h"
#include "hooks/python/interpreter/object.h"

namespace gpuwatch::hooks::python {

namespace {
constinit NumberFact g_threads("torch_threads");
}

GW_COLD void note_intra_op_threads() noexcept {
  PyObject* const torch = loaded_module("torch");
  const long threads = torch ? answer_of(torch, "get_num_threads") : -1;
  if (threads > 0) g_threads.put(static_cast<uint64_t>(threads));
}

}  // namespace gpuwatch::hooks::python
