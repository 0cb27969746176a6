// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/location.h"
#include "analyzer/advise/other_threads.h"
#include "analyzer/advise/own_data.h"
#include "analyzer/advise/queue_of_threads.h"
#include "analyzer/advise/rule.h"
#include "analyzer/model/pipe_reader.h"

namespace gpuwatch::advise {

extern const Rule kInputOwnCode;

namespace {

using attribute::Category;
using attribute::Group;
using model::Ns;
using trace::OpClass;

constexpr double kLeastShare = 0.05;

constexpr Threshold kThresholds[] = {
    {"data stall", kLeastShare, "of the step",
     "the lower of XProf's two bands: below it a job is not input-bound"},
    kOtherThreads,
};

enum class Source { kThreads, kProcesses, kOwnReads };

struct Waits {
  Ns by_source[3] = {0, 0, 0};
  Ns longest = 0;
  uint32_t call = model::kNone;
  Source source() const {
    return static_cast<Source>(std::max_element(std::begin(by_source), std::end(by_source)) - by_source);
  }
};

// Reading from a pipe or a socket has no cause of its own: whoever writes it is another process.
Source source_of(const attribute::Slice& slice, OpClass op_class) {
  if (op_class == OpClass::Wait) return Source::kThreads;
  const bool is_known_read = slice.category == Category::InputIo && op_class != OpClass::Receive;
  return is_known_read ? Source::kOwnReads : Source::kProcesses;
}

Waits find_waits(const RuleInput& input) {
  Waits waits;
  const uint32_t training = input.process.training_thread;
  const std::vector<model::HostCall>& calls = input.process.threads[training].calls;
  for (const attribute::Slice& slice : input.rank.slices) {
    if (attribute::info(slice.category).group != Group::Input || slice.thread != training) continue;
    const Ns length = slice.end - slice.begin;
    if (slice.call >= calls.size()) {  // short reads, counted from step to step
      waits.by_source[size_t(Source::kOwnReads)] += length;
      continue;
    }
    waits.by_source[size_t(source_of(slice, calls[slice.call].op_class))] += length;
    if (length <= waits.longest) continue;
    waits.longest = length;
    waits.call = slice.call;
  }
  return waits;
}

// The thread that ends such a wait only passes on what a process sent: it is blocked in reading a pipe for
// most of it. One that forwards what the job prints reads now and then.
bool is_from_processes(const RuleInput& input, double lost) {
  constexpr double kMostOfIt = 0.5;
  const auto& steps = input.rank.steps;
  if (steps.empty()) return false;
  const model::TimeSpan recorded{steps.front().step.begin, steps.back().step.end};
  return std::ranges::any_of(input.process.threads, [&](const model::Thread& thread) {
    const bool is_training = &thread == &input.process.threads[input.process.training_thread];
    const auto reads = std::ranges::count_if(
        thread.calls, [&](const model::HostCall& call) { return model::reads_pipe(thread, call); });
    return !is_training && 2 * size_t(reads) >= steps.size() &&
           model::pipe_share(thread, recorded) >= kMostOfIt * lost;
  });
}

std::string title(Source source, const std::string& stall) {
  switch (source) {
    case Source::kThreads:
      return fmt::format("Data loading: the script's own threads make data too slowly, {}", stall);
    case Source::kProcesses:
      return fmt::format("Data loading: the processes or servers that feed the script are too slow, {}",
                         stall);
    case Source::kOwnReads:
      break;
  }
  return fmt::format("Data loading: the training thread reads its data itself, {}", stall);
}

struct Advice {
  const char *summary, *value;
};

Advice advice(Source source, const model::Process& process) {
  if (source == Source::kProcesses)
    return process.facts.contains("torch")
               ? Advice{"Ask for several batches ahead (in a DataLoader with num_workers >= 1), or let more "
                        "processes make the data",
                        "more processes"}
               : Advice{"Let more processes make the data, or ask for several batches ahead",
                        "more processes"};
  if (process.facts.contains("torch"))
    return {"Make the data in a DataLoader with num_workers >= 1 (an IterableDataset around this code)",
            "DataLoader"};
  if (source == Source::kOwnReads) return {"Read ahead in another thread or process", "read ahead"};
  return process.facts.contains("python")
             ? Advice{"Make the data in processes: threads share the GIL", "processes"}
             : Advice{"Make the data in more threads, or further ahead", "more threads"};
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const model::Process& process = input.process;
  if (input.assumed_loader) return std::nullopt;  // more threads are proposed already
  if (input.own_data) return std::nullopt;        // known better: input-decode, input-remote-storage
  if (input.configured_loader() || process.training_thread >= process.threads.size()) return std::nullopt;
  const double lost = input.rank.share(Group::Input) * input.input_factor;
  if (lost < kLeastShare) return other_threads_finding(kInputOwnCode, input);
  if (is_queue_too_short(input)) return std::nullopt;  // dataloader-prefetch
  if (threads_wanted(input) > 0) return std::nullopt;  // dataloader-workers
  const Waits waits = find_waits(input);
  const bool is_passed_on = waits.source() == Source::kThreads && is_from_processes(input, lost);
  const Source source = is_passed_on ? Source::kProcesses : waits.source();
  Finding finding = make_finding(kInputOwnCode, input, lost);
  finding.title = title(source, stall_words(input, lost));
  finding.evidence = {{"data stall", 100 * lost, "% of the step"},
                      {"data stall", lost * input.rank.mean_step_ms(), "ms a step"},
                      {"available", double(process.cpu_count), "CPU cores"}};
  const Advice change =
      source == Source::kThreads && makers_wait(input)
          ? Advice{"Let more threads make the data: these wait most of that time, and do not compute",
                   "more threads"}
          : advice(source, process);
  finding.fix.change = NamedChange{"data loading", change.value};
  finding.fix.summary = change.summary;
  if (waits.call != model::kNone)
    finding.fix.location = call_location(input.run, process, process.training_thread, waits.call);
  finding.ceiling_speedup = ceiling_without_input(input, lost);
  return finding;
}

}  // namespace

const Rule kInputOwnCode{
    "input-own-code",
    "Training waits for data that no loader makes, but code of the script: prefetch threads with a queue, "
    "futures, processes that write to a pipe, a server, files read by the training thread.",
    "No loader is seen, and the training thread waits in a queue's `get()`, a future's `result()`, a pipe or "
    "a read in its steps. Or a thread of the script was seen to hold the GIL next to it, and training "
    "waits "
    "for the GIL or a core. Recorded loaders have other findings.",
    "A `DataLoader` with workers around the same code (`IterableDataset`): Python threads share the GIL, and "
    "nothing reads ahead what the training thread reads itself. Only an upper bound of the gain is known.",
    kThresholds,
    evaluate,
    attribute::Bottleneck::Input};

}  // namespace gpuwatch::advise
