// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/process_waits.h"

#include <algorithm>

namespace gpuwatch::model {
namespace {

using trace::OpClass;

constexpr uint32_t kPipe = 0x50495045;  // f_type of statfs

// Of one fetch. What polls is not known: in a fetch that reads pipes or ends children it is for these
// (subprocess with two pipes).
struct Sums {
  ProcessWait wait;
  Ns polled_ns = 0;
  ProcessWait result() const {
    ProcessWait result = wait;
    if (wait.all_ns() > 0) result.other_ns += polled_ns;
    return result;
  }
};

void add(const Thread& thread, const HostCall& call, Ns end, Sums& sums) {
  const Ns length = std::min(call.end, end) - call.begin;
  if (call.op_class == OpClass::ChildWait)
    sums.wait.other_ns += length;
  else if (call.op_class == OpClass::Poll)
    sums.polled_ns += length;
  else if (reads_pipe(thread.io_details, call))
    sums.wait.reading_ns += length;
}

template <class Found>
void walk(const Thread& thread, Found found) {
  const std::vector<HostCall>& calls = thread.calls;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].op_class != OpClass::Fetch) continue;
    Sums sums;
    Ns until = calls[i].begin;  // nested calls count once
    size_t next = i + 1;
    for (; next < calls.size() && calls[next].begin < calls[i].end; ++next) {
      if (calls[next].begin < until || !is_off_cpu(calls[next].op_class)) continue;
      add(thread, calls[next], calls[i].end, sums);
      until = calls[next].end;
    }
    found(calls[i].begin, sums.result());
    i = next - 1;
  }
}

}  // namespace

bool reads_pipe(const std::vector<trace::IoDetail>& details, const HostCall& call) {
  const bool is_read = call.op_class == OpClass::Read || call.op_class == OpClass::Receive;
  return is_read && call.detail < details.size() && details[call.detail].filesystem() == kPipe;
}

ProcessWait ProcessWaits::of(const LoaderEpoch& epoch, const Batch& batch) {
  const bool is_inline = batch.worker >= epoch.workers.size();
  const uint32_t worker = is_inline ? kNone : epoch.workers[batch.worker].process;
  if (!is_inline && worker >= run_.processes.size()) return {};
  const Process* fetching = is_inline ? &consumer_ : &run_.processes[worker];
  const auto entry = known_.try_emplace(fetching);
  ByBegin& waits = entry.first->second;
  if (entry.second)
    for (const Thread& thread : fetching->threads)
      walk(thread, [&waits](Ns begin, const ProcessWait& wait) {
        if (wait.all_ns() > 0) waits[begin] = wait;
      });
  const auto found = waits.find(batch.fetch.begin);
  return found == waits.end() ? ProcessWait{} : found->second;
}

}  // namespace gpuwatch::model
