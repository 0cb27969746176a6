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
    {"no finished call on the training thread", kLeastSteps, "mean steps",
     "a checkpoint or an evaluation of that length makes calls that are recorded"},
    {"no finished call on the training thread", kLeastSeconds, "s",
     "half of NCCL's shortest usual timeout; a network file system may block as long"},
};

// Other processes of the run on this machine may have recorded for longer than one that was killed while it
// hung.
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

// "torch.save > write": the calls that the thread has entered and not left, the outermost first.
std::string open_call_names(const model::Run& run, const model::Thread& thread) {
  std::string names;
  for (const model::OpenCall& call : thread.open_calls)
    names += (names.empty() ? "" : " > ") +
             (call.operation < run.operations.size() ? run.operations[call.operation].name : "unknown call");
  return names;
}

// "sem_wait for 312 s"
std::string blocked_in(const model::Run& run, const Process& process, Ns until) {
  if (process.training_thread >= process.threads.size()) return "no training thread";
  const model::Thread& thread = process.threads[process.training_thread];
  if (thread.open_calls.empty()) return "code without a recorded call";
  return fmt::format("{} for {:.0f} s", open_call_names(run, thread),
                     double(std::max<Ns>(0, until - thread.open_calls.front().since)) / 1e9);
}

std::string other_ranks(const RuleInput& input) {
  constexpr size_t kMost = 8;
  std::string words;
  size_t count = 0;
  for (const Process& process : input.run.processes) {
    if (&process == &input.process || !process.is_rank()) continue;
    if (process.end_state != model::EndState::kKilledOrRunning || ++count > kMost) continue;
    words += fmt::format(", rank {} in {}", process.rank,
                         blocked_in(input.run, process, std::max(process.alive_until, process.last_seen)));
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

  const model::Thread& thread = process.threads[process.training_thread];
  Finding finding = make_finding(kHang, input, 0);
  finding.severity = Severity::kMajor;
  const std::string stalled =
      fmt::format("for {:.0f} s: {} is in {}{}", idle_s,
                  process.rank >= 0 ? fmt::format("rank {}", process.rank) : "the training thread",
                  blocked_in(input.run, process, until), other_ranks(input));
  finding.title = "Hang: no progress " + stalled;
  finding.verdict = Verdict{"cannot-tell", "NO PROGRESS " + io::printable(stalled, 512), 1};
  finding.evidence = {{"time since the last finished call", idle_s, "s"}};
  if (input.now_ms > 0) finding.evidence.push_back({"the same in mean steps", steps, "steps"});
  finding.evidence.push_back({"completed before", double(input.rank.series.steps.size()), "steps"});
  finding.fix.change = NamedChange{
      "hang", process.rank >= 0 ? fmt::format("rank {}", process.rank) : fmt::format("pid {}", process.pid)};
  finding.fix.summary =
      thread.open_calls.empty()
          ? fmt::format("Find out where the training thread is stuck: py-spy dump --pid {}", process.pid)
          : fmt::format("Find out why {} does not return: py-spy dump --pid {}",
                        open_call_names(input.run, thread), process.pid);
  return finding;
}

}  // namespace

const Rule kHang{
    "hang",
    "The job makes no progress: a deadlock, a lost rank, a dead worker, a file system that does not respond.",
    "The process still runs or was killed, and its training thread has finished no recorded call for ten "
    "mean steps and over a minute. The open call of each rank's training thread says what that rank waits "
    "for.",
    "Look at the named rank and call. `py-spy dump --pid PID` prints its Python stack.",
    kThresholds,
    evaluate,
    {},
    true};

}  // namespace gpuwatch::advise
