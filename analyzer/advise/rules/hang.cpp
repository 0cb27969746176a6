// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "analyzer/advise/location.h"
#include "analyzer/advise/rule.h"
#include "analyzer/io/printable.h"

namespace gpuwatch::advise {

extern const Rule kHang;

namespace {

using model::Ns;
using model::Process;

constexpr double kLeastSteps = 10;
constexpr double kLeastSeconds = 60;

constexpr Threshold kThresholds[] = {
    {"training thread without a finished call", kLeastSteps, "mean steps",
     "checkpoints and evaluation of such length make records"},
    {"training thread without a finished call", kLeastSeconds, "s",
     "half of NCCL's shortest usual timeout; a network file system may take as long"},
};

// Others of the run on this machine may have lived, and recorded, longer than a process that was killed while
// it hung.
Ns alive_until(const RuleInput& input) {
  const Process& process = input.process;
  return std::max(process.alive_until, process.last_seen);
}

Ns last_progress(const Process& process) {
  const model::Thread& thread = process.threads[process.training_thread];
  Ns last = process.start;
  for (const model::HostCall& call : thread.calls) last = std::max(last, call.end);
  return last;
}

// "sem_wait for 312 s", the innermost call that the thread has entered and not left.
std::string waits_in(const model::Run& run, const Process& process, Ns until) {
  if (process.training_thread >= process.threads.size()) return "no thread that trains";
  const auto& open = process.threads[process.training_thread].open_calls;
  if (open.empty()) return "no recorded call (its own code, or one that is not hooked)";
  std::string calls;
  for (const model::OpenCall& call : open)
    calls += (calls.empty() ? "" : " > ") +
             (call.operation < run.operations.size() ? run.operations[call.operation].name : "unknown call");
  return fmt::format("{} for {:.0f} s", calls, double(std::max<Ns>(0, until - open.front().since)) / 1e9);
}

std::string other_ranks(const RuleInput& input) {
  constexpr size_t kMost = 8;
  std::string words;
  size_t count = 0;
  for (const Process& process : input.run.processes) {
    if (&process == &input.process || !process.is_rank()) continue;
    if (process.end_state != model::EndState::kKilledOrRunning || ++count > kMost) continue;
    words += fmt::format("; rank {} in {}", process.rank,
                         waits_in(input.run, process, std::max(process.alive_until, process.last_seen)));
  }
  return words;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const Process& process = input.process;
  if (process.end_state != model::EndState::kKilledOrRunning) return std::nullopt;
  if (process.training_thread >= process.threads.size()) return std::nullopt;
  const Ns until = alive_until(input), progress = last_progress(process);
  const double idle_s = double(until - progress) / 1e9;
  const double steps = input.now_ms > 0 ? idle_s * 1e3 / input.now_ms : kLeastSteps;
  if (idle_s < kLeastSeconds || steps < kLeastSteps) return std::nullopt;

  const std::string place = waits_in(input.run, process, until);
  Finding finding = make_finding(kHang, input, 0);
  finding.severity = Severity::kMajor;
  const std::string stalled = fmt::format("for {:.0f} s: {}the training thread is in {}{}", idle_s,
                                          process.rank >= 0 ? fmt::format("on rank {} ", process.rank) : "",
                                          place, other_ranks(input));
  finding.title = "No progress " + stalled;
  finding.verdict = Verdict{"cannot-tell", "NO PROGRESS " + io::printable(stalled, 512), 1};
  finding.evidence = {{"without a finished call", idle_s, "s"}};
  if (input.now_ms > 0) finding.evidence.push_back({"in mean steps", steps, "steps"});
  finding.evidence.push_back({"steps before", double(input.rank.series.steps.size()), "steps"});
  finding.fix.change = NamedChange{
      "hang", process.rank >= 0 ? fmt::format("rank {}", process.rank) : fmt::format("pid {}", process.pid)};
  finding.fix.summary =
      fmt::format("find out why {} does not come back; for its Python stack: py-spy dump --pid {}",
                  process.threads[process.training_thread].open_calls.empty() ? "the training thread" : place,
                  process.pid);
  return finding;
}

}  // namespace

const Rule kHang{
    "hang",
    "The job does not progress: a deadlock, a lost peer, a dead worker, a file system that does not answer.",
    "The process has not ended, and its training thread has finished no recorded call for ten mean steps and "
    "over a minute. The call that it has entered and not left says what it waits for, on each rank.",
    "The rank and the call to look at.",
    kThresholds,
    evaluate,
    true};

}  // namespace gpuwatch::advise
