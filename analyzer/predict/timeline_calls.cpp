// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/timeline_calls.h"

namespace gpuwatch::predict {
namespace {

using model::HostCall;
using model::Ns;
using trace::OpClass;

// Calls that the replay repeats. Not is_cuda(): NCCL's calls take host time, too, except that of a
// Collective, which is seen through, so that the launch inside of it stands in the timeline.
bool shapes_timeline(OpClass op_class) {
  return is_cuda(op_class) || (communicates(op_class) && op_class != OpClass::Collective);
}

// A wait of the training thread in which another thread launches kernels waits for that thread (autograd runs
// backward on one of its own): what the other does is the timeline. `calls` are in order of time.
void drop_waits_for_launches(std::vector<CallRef>& calls) {
  std::vector<CallRef> kept;
  for (size_t i = 0; i < calls.size(); ++i) {
    const CallRef& ref = calls[i];
    const bool has_next = i + 1 < calls.size();
    const bool waits_for_launch =
        ref.host->op_class == OpClass::Wait && has_next && calls[i + 1].thread != ref.thread &&
        calls[i + 1].host->op_class == OpClass::Launch && calls[i + 1].host->begin < ref.host->end;
    if (!waits_for_launch) kept.push_back(ref);
  }
  calls = std::move(kept);
}

}  // namespace

bool waits_for_data(OpClass op_class, bool is_training_thread) {
  return op_class == OpClass::LoaderNext || (is_training_thread && waits_for_thread(op_class));
}

std::vector<CallRef> timeline_calls(const model::Process& process, model::TimeSpan span) {
  std::vector<CallRef> calls;
  for (uint32_t t = 0; t < process.threads.size(); ++t) {
    const model::Thread& thread = process.threads[t];
    bool has_launches = std::any_of(thread.calls.begin(), thread.calls.end(),
                                    [](const HostCall& call) { return enqueues(call.op_class); });
    if (!has_launches && t != process.training_thread) continue;
    Ns outer_end = 0;
    for (uint32_t c = 0; c < thread.calls.size(); ++c) {
      const HostCall& call = thread.calls[c];
      if (call.begin < span.begin || call.begin >= span.end || call.begin < outer_end) continue;
      if (!shapes_timeline(call.op_class) && !waits_for_data(call.op_class, t == process.training_thread))
        continue;
      calls.push_back({t, c, &call});
      outer_end = call.end;
    }
  }
  std::sort(calls.begin(), calls.end(),
            [](const CallRef& a, const CallRef& b) { return a.host->begin < b.host->begin; });
  drop_waits_for_launches(calls);
  return calls;
}

}  // namespace gpuwatch::predict
