// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/early_end.h"

#include <fmt/format.h>

#include <filesystem>

#include "analyzer/advise/place_words.h"
#include "analyzer/io/printable.h"
#include "analyzer/model/training_framework.h"
#include "analyzer/model/training_stacks.h"

namespace gpuwatch::advise {
namespace {

using model::EndState;
using model::Process;

bool has_failed(const Process& process) {
  return process.end_state == EndState::kExited && process.exit_code != 0;
}

// The trace of a job that runs on another machine looks the same.
bool was_killed(const Process& process) {
  return process.end_state == EndState::kKilledOrRunning && !process.is_running;
}

bool is_of_a_worker(const model::Run& run, const Process& process) {
  if (process.worker_of != model::kNone) return true;
  return process.parent < run.processes.size() && run.processes[process.parent].is_rank() &&
         !process.is_rank();
}

// Of several ranks, the one that ended first: what happens to the others follows from it. One that failed
// rather than one that was killed: launchers kill the other ranks.
const Process* first_to_end(const model::Run& run, bool (*ended_so)(const Process&)) {
  const Process* first = nullptr;
  for (const Process& process : run.processes) {
    if (!ended_so(process) || is_of_a_worker(run, process)) continue;
    if (!first || process.last_seen < first->last_seen) first = &process;
  }
  return first;
}

std::string program_words(const Process& process) {
  const std::string path = process.script.empty() ? process.executable : process.script;
  const std::string name = io::printable(std::filesystem::path(path).filename().string());
  return process.rank >= 0 && process.world_size > 1 ? fmt::format("rank {} of {}", process.rank, name)
                                                     : name;
}

// " in cudaMalloc": the call of the training thread that did not return.
std::string open_call_words(const model::Run& run, const Process& process) {
  if (process.training_thread >= process.threads.size()) return "";
  for (const model::OpenCall& call : process.threads[process.training_thread].open_calls)
    if (call.operation < run.operations.size())
      return " in " + io::printable(run.operations[call.operation].name);
  return "";
}

Verdict failed(const Process& process) {
  return {
      "no-training",
      fmt::format("ENDED WITH AN ERROR: {} exited with code {} before it completed a training step; its own "
                  "output says why",
                  program_words(process), process.exit_code),
      1};
}

// Nothing tells a signal from a crash, as both leave no end.
Verdict killed(const model::Run& run, const Process& process) {
  return {
      "no-training",
      fmt::format("KILLED OR CRASHED: {} left no exit code and ended{} before it completed a training step, "
                  "or it is still running on another machine",
                  program_words(process), open_call_words(run, process)),
      1};
}

// It computed for a while with a framework, whose steps and input do not pass through anything hooked.
Verdict unseen(const model::Run& run, const model::Process& process, const std::string& framework) {
  std::string most;
  const auto functions = model::training_functions(run, process);
  if (!functions.empty())
    most = fmt::format("; {:.0f}% of the time in {}", 100 * functions.front().share,
                       place_words(functions.front().frame));
  return {"cannot-tell",
          fmt::format("CANNOT TELL: {} ran {} for {:.3g} s, but no step and no loader of it was seen{}",
                      io::printable(process.script.empty() ? process.executable : process.script),
                      io::printable(framework), double(process.last_seen - process.start) / 1e9, most),
          1};
}

}  // namespace

bool ended_early(const model::Run& run) {
  return first_to_end(run, has_failed) || first_to_end(run, was_killed);
}

Verdict verdict_without_steps(const model::Run& run) {
  for (const Process& process : run.processes)
    if (const std::string framework = model::unseen_training(process); !framework.empty())
      return unseen(run, process, framework);
  if (const Process* process = first_to_end(run, has_failed)) return failed(*process);
  if (const Process* process = first_to_end(run, was_killed)) return killed(run, *process);
  for (const Process& process : run.processes)
    if (process.is_rank() && process.is_running)
      return {"no-training", fmt::format("NO TRAINING STEP YET: {} is still running", program_words(process)),
              1};
  for (const Process& process : run.processes)
    if (process.is_rank())
      return {"no-training",
              fmt::format("NO TRAINING SEEN: {} ran, but no repeating training step was found in what it did",
                          io::printable(process.script.empty() ? process.executable : process.script)),
              1};
  return {"no-training", "NO TRAINING SEEN: no DataLoader, optimizer step or kernel launch was recorded", 1};
}

Verdict verdict_with_few_steps(const Process& process, size_t steps) {
  const std::string recorded = fmt::format("only {} step{} recorded", steps, steps == 1 ? " was" : "s were");
  if (has_failed(process))
    return {"too-short",
            fmt::format("TOO SHORT: {}, then {} exited with code {}; its own output says why", recorded,
                        program_words(process), process.exit_code),
            1};
  return {"too-short", fmt::format("TOO SHORT: {}; let the job run for 20 steps or more", recorded), 1};
}

}  // namespace gpuwatch::advise
