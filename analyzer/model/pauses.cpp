// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/pauses.h"

#include <algorithm>
#include <map>

#include "analyzer/model/quantile.h"
#include "analyzer/model/stacks.h"

namespace gpuwatch::model {
namespace {

using trace::OpClass;

constexpr Ns kSecond = 1'000'000'000;
constexpr Ns kLeastIdle = 1 * kSecond;     // in an event loop or at a prompt: its stack says so
constexpr Ns kLeastStopped = 2 * kSecond;  // machine samples come once a second
constexpr double kLong = 5;                // times the median step: shorter ones change no mean by much
constexpr double kMostSteps = 0.05;        // that may hold a pause; what recurs more often belongs to the job
constexpr double kOtherCpu = 0.2;          // of a pause in which the process is said not to have run

Ns median_length(const std::vector<Step>& steps) {
  std::vector<Ns> lengths;
  for (const Step& step : steps) lengths.push_back(step.end - step.begin);
  return lengths.empty() ? 0 : median(std::move(lengths));
}

// Who waits there is a person, or whatever the loop serves: not training.
bool is_prompt(const std::vector<StackFrame>& frames) {
  constexpr std::string_view kParts[] = {"/asyncio/", "/ipykernel/", "/tornado/", "/IPython/",
                                         "/pdb.py",   "/bdb.py",     "/debugpy/", "/code.py"};
  return std::any_of(frames.begin(), frames.end(), [&](const StackFrame& frame) {
    return std::any_of(std::begin(kParts), std::end(kParts),
                       [&](std::string_view part) { return frame.file.find(part) != std::string::npos; });
  });
}

// The user's code waits itself, in whatever library: the frames up to it are asked, not the ones that called
// it. A cell's code is called by the kernel's event loop.
std::vector<StackFrame> up_to_users(std::vector<StackFrame> frames) {
  const auto users = std::find_if(frames.begin(), frames.end(), is_users);
  frames.erase(users, frames.end());
  return frames;
}

bool may_be_prompt(OpClass op_class) {
  return op_class == OpClass::Poll || op_class == OpClass::Read;
}

void add_prompts(const Run& run, const Thread& thread, Ns least, std::vector<Pause>& pauses) {
  Ns in_loader = 0;
  for (const HostCall& call : thread.calls) {
    if (takes_batch(call.op_class)) in_loader = std::max(in_loader, call.end);
    if (call.begin < in_loader || !may_be_prompt(call.op_class)) continue;
    if (call.end - call.begin < std::max(least, kLeastIdle)) continue;
    const std::string* stack = stack_of(run, thread, call);
    if (stack && is_prompt(up_to_users(frames_of(*stack))))
      pauses.push_back({{call.begin, call.end}, Pause::Kind::kPrompt});
  }
}

// CPU time of the process by its samples around a span, less what it used to take outside of it.
class ProcessCpu {
 public:
  explicit ProcessCpu(const Process& process) : samples_(process.machine_samples) {}

  // The samples tell that nothing of the process ran for most of the span.
  bool did_not_run(TimeSpan span) const {
    const auto after = std::lower_bound(samples_.begin(), samples_.end(), span.end,
                                        [](const MachineSample& s, Ns time) { return s.time < time; });
    auto before = std::upper_bound(samples_.begin(), samples_.end(), span.begin,
                                   [](Ns time, const MachineSample& s) { return time < s.time; });
    if (after == samples_.end() || before == samples_.begin()) return false;
    --before;
    const double used = cpu(*after) - cpu(*before),
                 outside = double(after->time - before->time - span.length());
    const double others = double(samples_.back().time - samples_.front().time - span.length());
    const double all = cpu(samples_.back()) - cpu(samples_.front());
    const double rate = others > 0 ? std::max(0.0, all - kOtherCpu * double(span.length())) / others : 0;
    const double most = kOtherCpu * double(span.length()) + 2 * rate * outside;
    return used <= most && most < double(span.length());
  }

 private:
  static double cpu(const MachineSample& sample) {
    return double(sample.cpu_ns + sample.children_cpu_ns + sample.other_children_cpu_ns +
                  sample.ended_children_cpu_ns);
  }
  const std::vector<MachineSample>& samples_;
};

// A step or a range is its caller's own time: only its two ends say when the thread ran.
std::vector<TimeSpan> covered(const Thread& thread) {
  std::vector<TimeSpan> times;
  for (const HostCall& call : thread.calls) {
    if (call.op_class == OpClass::OptimizerStep || is_range(call.op_class)) {
      times.push_back({call.begin, call.begin});
      times.push_back({call.end, call.end});
    } else {
      times.push_back({call.begin, call.end});
    }
  }
  std::sort(times.begin(), times.end(),
            [](const TimeSpan& a, const TimeSpan& b) { return a.begin < b.begin; });
  return times;
}

// Neither in a call that waits, nor running, nor waiting for a CPU: stopped by a signal, a debugger, or with
// its machine.
void add_stops(const Process& process, const Thread& thread, Ns least, std::vector<Pause>& pauses) {
  const ProcessCpu process_cpu(process);
  const std::vector<TimeSpan> calls = covered(thread);
  Ns cursor = calls.empty() ? 0 : calls.front().end;
  for (const TimeSpan& call : calls) {
    const TimeSpan own{cursor, call.begin};
    if (own.length() >= std::max(least, kLeastStopped) && process_cpu.did_not_run(own))
      pauses.push_back({own, Pause::Kind::kStopped});
    cursor = std::max(cursor, call.end);
  }
}

}  // namespace

std::vector<Pause> find_pauses(const Run& run, const Process& process, const std::vector<Step>& steps) {
  std::vector<Pause> pauses;
  if (steps.size() < 2 || process.training_thread >= process.threads.size()) return pauses;
  const Thread& thread = process.threads[process.training_thread];
  const Ns least = static_cast<Ns>(kLong * static_cast<double>(median_length(steps)));
  add_prompts(run, thread, least, pauses);
  add_stops(process, thread, least, pauses);
  std::sort(pauses.begin(), pauses.end(),
            [](const Pause& a, const Pause& b) { return a.time.begin < b.time.begin; });
  std::vector<Pause> disjoint;
  for (const Pause& pause : pauses)
    if (disjoint.empty() || pause.time.begin >= disjoint.back().time.end) disjoint.push_back(pause);
  const double most = std::max(3.0, kMostSteps * static_cast<double>(steps.size()));
  if (static_cast<double>(disjoint.size()) > most) disjoint.clear();
  return disjoint;
}

void mark_interrupted(const std::vector<Pause>& pauses, std::vector<Step>& steps) {
  auto pause = pauses.begin();
  for (Step& step : steps) {
    while (pause != pauses.end() && pause->time.end <= step.begin) ++pause;
    if (pause != pauses.end() && pause->time.begin < step.end) step.is_interrupted = true;
  }
}

}  // namespace gpuwatch::model
