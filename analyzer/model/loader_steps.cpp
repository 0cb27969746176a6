// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/loader_steps.h"

#include <algorithm>
#include <unordered_map>

#include "analyzer/model/outermost_calls.h"

namespace gpuwatch::model {
namespace {

using trace::OpClass;

// Nothing tells where the last step ends: a validation, a saved model and the interpreter's end follow it. 21
// s of such a rest made 136 ms a step of 69.
bool is_rest_of_the_program(const Process& process, const HostCall& last_next,
                            const std::vector<Step>& steps) {
  constexpr size_t kFew = 3;
  if (steps.size() < kFew || steps.back().begin != last_next.begin) return false;
  if (process.end_state == EndState::kKilledOrRunning) return false;  // what it hangs in, say
  const auto length = [](const Step& step) { return step.end - step.begin; };
  return std::ranges::all_of(steps.begin(), steps.end() - 1,
                             [&](const Step& step) { return length(step) < length(steps.back()); });
}

}  // namespace

bool returned_batch(const HostCall& call) {
  return call.op_class == OpClass::LoaderNext && !call.failed();
}

std::vector<Step> find_loader_steps(const Process& process, const Thread& thread) {
  std::unordered_map<uint32_t, size_t> batches;
  uint32_t main = 0;
  for (const auto& call : thread.calls) {
    if (!returned_batch(call)) continue;
    const size_t count = ++batches[call.correlation_or_object];
    if (count > batches[main] || batches.size() == 1) main = call.correlation_or_object;
  }
  const auto nexts = outermost(thread, [&](const HostCall& c) {
    return c.op_class == OpClass::LoaderNext && c.correlation_or_object == main;
  });
  std::vector<Step> steps;
  for (size_t i = 0; i < nexts.size(); ++i) {
    if (nexts[i]->failed()) continue;
    const Ns end = i + 1 < nexts.size() ? nexts[i + 1]->begin : std::max(nexts[i]->end, process.last_seen);
    steps.push_back({nexts[i]->begin, end, 0, false});
  }
  if (!steps.empty() && is_rest_of_the_program(process, *nexts.back(), steps)) steps.pop_back();
  return steps;
}

}  // namespace gpuwatch::model
