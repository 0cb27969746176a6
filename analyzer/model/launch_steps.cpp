// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/launch_steps.h"

#include <algorithm>

#include "analyzer/model/launch_period.h"
#include "libinject/trace/layout.h"

namespace gpuwatch::model {
namespace {

using trace::OpClass;

// cudaMemcpyKind, as in CallDetail.direction.
constexpr uint8_t kHostToDevice = 1;
constexpr uint8_t kDeviceToHost = 2;

enum TokenKind : uint32_t { kKernel, kLaunchAddress, kCopy, kOther };

uint32_t token(TokenKind kind, uint64_t value) {
  const uint64_t spread = (value ^ value >> 32) * 0x9e3779b97f4a7c15;
  return static_cast<uint32_t>(spread >> 34) << 2 | kind;
}

struct Launches {
  std::vector<uint32_t> tokens;
  std::vector<uint32_t> calls;  // index into Thread::calls
};

// The kernel that each launch started, by call; kNone where CUPTI did not tell.
std::vector<uint32_t> kernels_by_call(const Process& process, uint32_t thread) {
  std::vector<uint32_t> kernels(process.threads[thread].calls.size(), kNone);
  for (const auto& device : process.devices) {
    for (const auto& op : device.operations) {
      if (op.launch_thread == thread && op.launch_call < kernels.size()) kernels[op.launch_call] = op.kernel;
    }
  }
  return kernels;
}

// What a loop does each time round. Copies to the host and synchronisations come and go with logging; they
// count only when nothing else tells the steps apart.
Launches launches_of(const Process& process, uint32_t thread_index, bool with_synchronisation) {
  const Thread& thread = process.threads[thread_index];
  const auto kernels = kernels_by_call(process, thread_index);
  Launches launches;
  const auto add = [&](size_t call, uint32_t value) {
    launches.tokens.push_back(value);
    launches.calls.push_back(static_cast<uint32_t>(call));
  };
  for (size_t i = 0; i < thread.calls.size(); ++i) {
    const HostCall& call = thread.calls[i];
    const trace::CallDetail* detail = call_detail_of(thread, call);
    switch (call.op_class) {
      case OpClass::Launch:
        if (kernels[i] != kNone) {
          add(i, token(kKernel, kernels[i]));
        } else {
          add(i, token(kLaunchAddress, detail ? detail->caller() : call.operation));
        }
        break;
      case OpClass::GraphLaunch:
      case OpClass::Memset:
        add(i, token(kOther, call.operation));
        break;
      case OpClass::Copy:
        if (!detail || detail->direction() != kDeviceToHost || with_synchronisation) {
          add(i, token(kCopy, detail ? detail->direction() : kHostToDevice));
        }
        break;
      case OpClass::Sync:
        if (with_synchronisation) add(i, token(kOther, call.operation));
        break;
      default:
        break;
    }
  }
  return launches;
}

// Where in the period the host pauses longest on average: there one step ends and the next one begins,
// whatever kernel the period was found by. Returned as launches by which the ends move forward.
size_t longest_pause(const Thread& thread, const Launches& launches, const LaunchPeriod& period) {
  std::vector<Ns> pause(period.length, 0);
  for (size_t r = 0; r + 2 < period.ends.size(); ++r) {
    if (period.ends[r + 1] - period.ends[r] != period.length) continue;
    for (size_t i = 0; i < period.length; ++i) {
      const size_t at = period.ends[r + 1] + i;
      if (at >= launches.calls.size()) break;
      pause[i] +=
          std::max<Ns>(0, thread.calls[launches.calls[at]].begin - thread.calls[launches.calls[at - 1]].end);
    }
  }
  return static_cast<size_t>(std::max_element(pause.begin(), pause.end()) - pause.begin());
}

}  // namespace

std::vector<Step> find_launch_steps(const Process& process, uint32_t thread_index) {
  const Thread& thread = process.threads[thread_index];
  Launches launches = launches_of(process, thread_index, false);
  LaunchPeriod period = find_launch_period(launches.tokens);
  if (period.length <= 1) {
    Launches all = launches_of(process, thread_index, true);
    LaunchPeriod finer = find_launch_period(all.tokens);
    if (finer.length > 1) {
      launches = std::move(all);
      period = std::move(finer);
    }
  }
  if (period.length == 0) return {};

  const size_t shift = longest_pause(thread, launches, period);
  std::vector<Step> steps;
  for (size_t r = 0; r + 1 < period.ends.size(); ++r) {
    const size_t first = period.ends[r] + shift, last = period.ends[r + 1] + shift;
    if (last > launches.calls.size()) break;
    const bool gap = last - first > 2 * period.length;  // something that is no step lies between
    const Ns begin = first == 0 || gap
                         ? thread.calls[launches.calls[gap ? last - period.length : first]].begin
                         : thread.calls[launches.calls[first - 1]].end;
    const Ns end = thread.calls[launches.calls[last - 1]].end;
    if (end > begin) steps.push_back({begin, end, 0, false});
  }
  return steps;
}

}  // namespace gpuwatch::model
