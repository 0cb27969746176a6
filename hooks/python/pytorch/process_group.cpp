// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/pytorch/process_group.h"

#include "hooks/python/interpreter/look_again.h"
#include "hooks/python/interpreter/object.h"

namespace gpuwatch::hooks::python {

namespace {
constinit NumberFact g_rank("process_group.rank"), g_size("process_group.size");
}

// torch.distributed.distributed_c10d._world._default_pg: a plain attribute, so that no property runs. Not
// asked again once it has answered: a group may be written in Python.
GW_COLD void note_process_group() noexcept {
  if (g_size.is_put()) return;
  PyObject* const module = loaded_module("torch.distributed.distributed_c10d");
  const Ref world = module ? attribute(module, "_world") : Ref();
  const Ref group = world ? attribute(world.get(), "_default_pg") : Ref();
  if (!group || group.is_none()) return;
  const long rank = answer_of(group.get(), "rank"), size = answer_of(group.get(), "size");
  if (rank < 0 || size < 1) return;
  g_rank.put(static_cast<uint64_t>(rank));
  g_size.put(static_cast<uint64_t>(size));
}

}  // namespace gpuwatch::hooks::python
