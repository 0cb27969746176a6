// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/place.h"

namespace gpuwatch::attribute {
namespace {

uint64_t call_key(const ProcessView& view, uint32_t thread, uint32_t call) {
  const model::HostCall& host = view.call(thread, call);
  const uint64_t kernel = uint64_t{view.kernel_of(thread, call)} << 16;
  return model::caller_of(view.thread(thread), host) * 0xff51afd7ed558ccdu ^ kernel ^ host.operation;
}

}  // namespace

bool is_between_calls(const Activity& activity, size_t stretch_index) {
  return stretch_index > 0 && stretch_index + 1 < activity.size() &&
         activity[stretch_index].call == model::kNone;
}

uint64_t place_of(const ProcessView& view, uint32_t thread, size_t stretch_index) {
  const Activity& activity = view.activity(thread);
  const uint64_t before = call_key(view, thread, activity[stretch_index - 1].call);
  const uint64_t after = call_key(view, thread, activity[stretch_index + 1].call);
  return before * 0x9e3779b97f4a7c15u ^ after;
}

}  // namespace gpuwatch::attribute
