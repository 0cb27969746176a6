// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "analyzer/model/pipe_reader.h"
#include "analyzer/predict/producer_replay.h"

namespace gpuwatch::predict {
namespace {

using attribute::Category;
using attribute::Group;
using attribute::RankAttribution;
using model::Ns;
using trace::OpClass;

constexpr double kLeastBusyShare = 0.05;    // a thread that mostly waits helps others, it does not load data
constexpr double kLeastOfBusiest = 0.2;     // nor does one that does little beside those that do
constexpr double kAssumedBatchesAhead = 2;  // of a queue between loader threads and the training thread

struct Busy {
  double busy_ns = 0;     // neither waiting for another thread nor idle
  double off_cpu_ns = 0;  // of it, asleep or in I/O
  size_t waits = 0;
};

// A thread's time within the span, cut by the outermost calls in which it waits for another thread.
Busy busy_time(const model::Thread& thread, Ns begin, Ns end) {
  Busy result;
  double waited = 0;
  Ns outer_end = begin;
  for (const model::HostCall& call : thread.calls) {
    Ns from = std::max(call.begin, outer_end), to = std::min(call.end, end);
    if (to <= from) continue;
    outer_end = to;
    if (waits_for_thread(call.op_class)) {
      waited += double(to - from);
      ++result.waits;
    } else if (reads_input(call.op_class) || call.op_class == OpClass::Sleep) {
      result.off_cpu_ns += double(to - from);
    }
  }
  result.busy_ns = std::max(0.0, double(end - begin) - waited);
  return result;
}

// Threads of the CUDA driver and of other libraries are in one call for most of the run, which may have no
// end, and make few others. Two of them made one decoder of a reader on an H200 look idle.
bool stays_in_one_call(const model::Thread& thread, Ns begin, Ns end, size_t steps) {
  constexpr size_t kSeldom =
      10;  // a thread that makes data waits at least once for so many steps, or not at all
  const Ns most = (end - begin) / 4;
  if (thread.calls.size() * kSeldom >= steps) return false;
  if (!thread.open_calls.empty() && end - thread.open_calls.front().since > most) return true;
  return std::ranges::any_of(thread.calls, [&](const model::HostCall& call) {
    return std::min(call.end, end) - std::max(call.begin, begin) > most;
  });
}

// "cuda-EvtHandlr", "cuda00001400006"
bool is_of_driver(const model::Thread& thread) {
  return thread.name == "cuda-EvtHandlr" ||
         (thread.name.starts_with("cuda0") &&
          thread.name.find_first_not_of("0123456789", 4) == std::string::npos);
}

// Four processes of a pool made the batches, and one thread read them from its pipe 51% of the time: more
// such threads were promised to gain 4.8 times, and twice as many processes gained 1.6 times.
bool passes_on(const model::Thread& thread, const model::TimeSpan& span, const Busy& time) {
  constexpr double kMostOfIt = 0.5;
  return model::pipe_share(thread, span) * double(span.length()) >= kMostOfIt * time.busy_ns;
}

bool uses_device(const model::Thread& thread) {
  return std::any_of(thread.calls.begin(), thread.calls.end(),
                     [](const model::HostCall& call) { return launches_kernels(call.op_class); });
}

// The waiting call of the training thread that most of the input wait is attributed to.
uint32_t waiting_call(const model::Process& process, const RankAttribution& rank) {
  uint32_t best = model::kNone;
  Ns longest = 0;
  for (const attribute::Slice& slice : rank.slices) {
    if (attribute::info(slice.category).group != Group::Input) continue;
    if (slice.thread != process.training_thread || slice.call == model::kNone) continue;
    if (slice.end - slice.begin <= longest) continue;
    longest = slice.end - slice.begin;
    best = slice.call;
  }
  return best;
}

// The training thread's calls that the attribution explained input time with.
std::vector<uint32_t> waits_for_data(const model::Process& process, const RankAttribution& rank) {
  const model::Thread& thread = process.threads.at(process.training_thread);
  std::vector<uint32_t> calls;
  for (const attribute::Slice& slice : rank.slices)
    if (attribute::info(slice.category).group == Group::Input && slice.thread == process.training_thread &&
        slice.call < thread.calls.size())
      calls.push_back(slice.call);
  std::sort(calls.begin(), calls.end());
  calls.erase(std::unique(calls.begin(), calls.end()), calls.end());
  return calls;
}

// In these calls, whether or not the device was idle.
double host_wait_ns(const model::Process& process, const RankAttribution& rank,
                    const std::vector<uint32_t>& waits) {
  const model::Thread& thread = process.threads[process.training_thread];
  double sum = 0;
  for (const uint32_t call : waits) sum += double(thread.calls[call].end - thread.calls[call].begin);
  return std::max(sum, double(rank.time(Group::Input)));
}

// Whether waits for data end when this thread's sleep does.
bool ends_waits(const model::Process& process, const std::vector<uint32_t>& waits,
                const model::Thread& thread) {
  constexpr Ns kSoon = 1'000'000;  // as a thread that waits gets a CPU, see attribute/thread_wait.h
  size_t ended = 0;
  for (const uint32_t wait : waits) {
    const Ns end = process.threads[process.training_thread].calls[wait].end;
    const auto next = std::ranges::partition_point(
        thread.calls, [end](const model::HostCall& call) { return call.begin < end; });
    for (auto call = next; call != thread.calls.begin() && (--call)->end > end - kSoon;) {
      if (call->end > end) continue;  // asleep again
      ++ended;
      break;
    }
  }
  return 2 * ended > waits.size();
}

// A thread that does nothing but sleep is a timer of some library: one that hands batches over waits for
// room, too. Unless training always waits for it (a driver, a camera): then there is always room.
bool is_timer(const model::Process& process, const std::vector<uint32_t>& waits,
              const model::Thread& thread) {
  return std::ranges::all_of(thread.calls,
                             [](const model::HostCall& call) { return call.op_class == OpClass::Sleep; }) &&
         !ends_waits(process, waits, thread);
}

// CPUs that the training thread uses between its waits for data: not those in which it waits for the device.
double training_cores(const model::Process& process, Ns begin, Ns end, double think_ns) {
  double blocked = 0;
  for (const model::HostCall& call : process.threads.at(process.training_thread).calls) {
    if (call.op_class != OpClass::Sync || call.begin < begin || call.end > end) continue;
    blocked += double(call.end - call.begin);
  }
  return think_ns > 0 ? std::clamp(1 - blocked / think_ns, 0.0, 1.0) : 1;
}

}  // namespace

std::optional<ProducerReplayInput> extract_producers(const model::Run& run, const RankAttribution& rank) {
  const model::Process& process = run.processes.at(rank.process);
  if (!process.epochs.empty() || rank.steps.empty() || process.training_thread == model::kNone)
    return std::nullopt;
  if (rank.time(Group::Input) == 0) return std::nullopt;
  Ns begin = rank.steps.front().step.begin, end = rank.steps.back().step.end;
  double span = double(end - begin), steps = double(rank.steps.size());

  const std::vector<uint32_t> waits = waits_for_data(process, rank);
  std::vector<std::pair<uint32_t, Busy>> candidates;
  double busiest = 0;
  for (uint32_t t = 0; t < process.threads.size(); ++t) {
    const model::Thread& thread = process.threads[t];
    const bool is_own = thread.name == "gpuwatch";  // fetches device records
    if (t == process.training_thread || is_own || is_timer(process, waits, thread) || uses_device(thread) ||
        is_of_driver(thread) || stays_in_one_call(thread, begin, end, rank.steps.size()))
      continue;
    Busy time = busy_time(thread, begin, end);
    if (time.busy_ns < kLeastBusyShare * span || passes_on(thread, {begin, end}, time)) continue;
    candidates.emplace_back(t, time);
    busiest = std::max(busiest, time.busy_ns);
  }
  ProducerReplayInput recording;
  double busy = 0, off_cpu = 0;
  for (const auto& [thread, time] : candidates) {
    if (time.busy_ns < kLeastOfBusiest * busiest) continue;
    recording.threads.push_back(thread);
    busy += time.busy_ns;
    off_cpu += time.off_cpu_ns;
  }
  if (recording.threads.empty()) return std::nullopt;
  double producers = double(recording.threads.size());
  recording.busy_share = busy / (span * producers);
  recording.service_ms = busy / steps / 1e6;
  recording.wait_call = waiting_call(process, rank);

  double step_ns = rank.mean_step_ms() * 1e6;
  double wait_ns = std::min(host_wait_ns(process, rank, waits) / steps, step_ns);
  recording.wait_ms = wait_ns / 1e6;

  LoaderReplayInput& loader = recording.loader;
  BatchCost cost{.service_ns = busy / steps,
                 .cpu_ns = std::max(0.0, busy - off_cpu) / steps,
                 .think_ns = step_ns - wait_ns};
  constexpr size_t kBatches = 200;  // constant costs: enough to leave the start behind
  ReplayEpoch epoch;
  epoch.batches.assign(kBatches, cost);
  for (size_t i = 0; i < kBatches / 4; ++i) epoch.batches[i].counted = false;
  loader.epochs = {epoch};
  loader.setting = {int(producers), int(kAssumedBatchesAhead), true};
  loader.hand_over.measured = true;
  loader.cores = std::max(1u, process.cpu_count);
  loader.think_cores = training_cores(process, begin, end, cost.think_ns * steps);
  loader.measured_step_ms = rank.mean_step_ms();
  loader.steps = rank.steps.size();
  return recording;
}

}  // namespace gpuwatch::predict
