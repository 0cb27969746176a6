// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "analyzer/advise/rule.h"
#include "analyzer/model/phases.h"
#include "analyzer/model/stacks.h"

namespace gpuwatch::advise {

extern const Rule kStartupShare;

namespace {

using model::Ns;
using trace::OpClass;

constexpr double kLeastShare = 0.30;
constexpr double kLeastSeconds = 60;
constexpr double kLeastPart = 10;

constexpr Threshold kThresholds[] = {
    {"start-up", kLeastShare, "of the run", "below it a longer training hides it"},
    {"start-up", kLeastSeconds, "s",
     "importing a framework takes 3 to 10 s, on a busy machine 40; short trial runs are short on purpose"},
    {"or one part of start-up that a setting can shorten", kLeastPart, "s, and that share of the run",
     "this part contains no imports, so it may be shorter; below it a cache is not worth the effort"},
};

// Time of the training thread's outermost calls of these classes within a time span.
double calls_s(const model::Thread& thread, model::TimeSpan span, std::initializer_list<OpClass> classes) {
  Ns covered = span.begin, sum = 0;
  for (const model::HostCall& call : thread.calls) {
    if (call.begin >= span.end) break;
    if (call.end <= covered || std::find(classes.begin(), classes.end(), call.op_class) == classes.end())
      continue;
    sum += std::min(call.end, span.end) - std::max(call.begin, covered);
    covered = call.end;
  }
  return double(sum) / 1e9;
}

// What the reads of start-up were for, as far as stacks tell: the interpreter's and the packages' own files,
// which a fresh container reads from a cold disk, or files that the script opens.
struct Reads {
  double seconds = 0, imports_s = 0, script_s = 0;
  std::string location;     // of the longest by the script
  bool has_imports = true;  // a program without Python reads what it opens itself
  bool is_scan() const { return !has_imports || script_s > imports_s; }
};

bool is_import(const std::vector<model::StackFrame>& frames) {
  return std::any_of(frames.begin(), frames.end(), [](const model::StackFrame& frame) {
    return frame.file.starts_with("<frozen importlib") || frame.file.find("/importlib/") != std::string::npos;
  });
}

Reads find_reads(const RuleInput& input, model::TimeSpan span) {
  const model::Thread& thread = input.process.threads[input.process.training_thread];
  Reads reads;
  reads.has_imports = input.process.facts.contains("python");
  Ns covered = span.begin;
  double longest = 0;
  for (const model::HostCall& call : thread.calls) {
    if (call.begin >= span.end) break;
    const bool is_read =
        call.op_class == OpClass::Read || call.op_class == OpClass::Open || call.op_class == OpClass::Stat;
    if (call.end <= covered || !is_read) continue;
    const double seconds = double(std::min(call.end, span.end) - std::max(call.begin, covered)) / 1e9;
    covered = call.end;
    reads.seconds += seconds;
    const std::string* stack = model::stack_of(input.run, thread, call);
    if (!stack) continue;
    const std::vector<model::StackFrame> frames = model::frames_of(*stack);
    if (is_import(frames)) {
      reads.imports_s += seconds;
    } else if (const model::StackFrame* frame = model::users_frame(frames)) {
      reads.script_s += seconds;
      if (seconds <= longest) continue;
      longest = seconds;
      reads.location = frame->location();
    }
  }
  return reads;
}

// Of the reads that tell; without any, it is not known which files they were.
const char* reads_fix(const Reads& reads) {
  if (reads.is_scan()) return "Scan the dataset once and keep the file list, or read it lazily";
  if (reads.imports_s > 0)
    return "Keep Python's packages on a local disk: a fresh container reads them from a cold one";
  return "Find out which files are read (strace -f -e trace=openat): a dataset's list can be kept; Python's "
         "own "
         "files are read once in a fresh container";
}

// A notebook's kernel waits for its user before the first step, too.
double prompt_s(const RuleInput& input, model::TimeSpan span) {
  constexpr Ns kLeast = 1'000'000'000;
  Ns sum = 0;
  for (const model::HostCall& call : input.process.threads[input.process.training_thread].calls) {
    if (call.begin >= span.end) break;
    const bool is_event_loop = call.op_class == OpClass::Poll &&
                               call.operation < input.run.operations.size() &&
                               input.run.operations[call.operation].name.starts_with("epoll");
    if (is_event_loop && call.end - call.begin >= kLeast) sum += std::min(call.end, span.end) - call.begin;
  }
  return double(sum) / 1e9;
}

struct Part {
  const char* what;
  const char* setting;
  const char* fix;
  double seconds;
};

std::optional<Finding> evaluate(const RuleInput& input) {
  const model::Process& process = input.process;
  if (process.is_running || process.training_thread >= process.threads.size()) return std::nullopt;
  const auto phases = model::find_phases(process, input.rank.series);
  if (phases.empty() || phases.front().kind != model::PhaseKind::kStartup) return std::nullopt;
  const model::TimeSpan startup = phases.front().time;
  const double idle_s = prompt_s(input, startup);
  const double seconds = double(startup.length()) / 1e9 - idle_s;
  const double run_s = double(process.last_seen - process.start) / 1e9 - idle_s;
  if (seconds < kLeastPart || run_s <= 0 || seconds / run_s < kLeastShare) return std::nullopt;

  const model::Thread& thread = process.threads[process.training_thread];
  const Reads reads = find_reads(input, startup);
  const bool is_scan = reads.is_scan();
  const Part parts[] = {
      {"reading files", is_scan ? "dataset scan" : "reading files", reads_fix(reads), reads.seconds},
      {"loading or compiling GPU code", "build for this GPU",
       "Use a build for this GPU's architecture, and keep compile caches (CUDA_CACHE_PATH, "
       "TORCHINDUCTOR_CACHE_DIR)",
       calls_s(thread, startup, {OpClass::ModuleLoad, OpClass::Capture, OpClass::GraphBuild})},
      {"setting up communication", "NCCL initialisation",  // words: ok, fix.setting in JSON
       "Create fewer process groups, and run the TCPStore on a nearby host",
       calls_s(thread, startup, {OpClass::CommLife, OpClass::Receive, OpClass::Send})},
      {"starting DataLoader workers", "start method",
       "Start workers with fork or forkserver instead of spawn, and import less in them",
       calls_s(thread, startup, {OpClass::LoaderStart, OpClass::LoaderNext})},
      {"sleeping or waiting for other processes", "waiting",
       "Find out what the process waits for at start-up",
       calls_s(thread, startup, {OpClass::Sleep, OpClass::ChildWait, OpClass::Poll, OpClass::Wait}) -
           idle_s}};
  const Part* largest = std::max_element(std::begin(parts), std::end(parts),
                                         [](const Part& a, const Part& b) { return a.seconds < b.seconds; });
  const bool is_long = seconds >= kLeastSeconds;
  const bool has_long_part = largest->seconds >= std::max(kLeastPart, kLeastShare * run_s);
  if (!is_long && !has_long_part) return std::nullopt;
  const double share = seconds / run_s;
  Finding finding = make_finding(kStartupShare, input, share);
  const bool is_known = largest->seconds >= 0.25 * seconds;
  finding.title = fmt::format("Start-up: {:.0f}% of the run passes before the first step", 100 * share);
  if (is_known) finding.title += fmt::format(", {:.0f} s of it {}", largest->seconds, largest->what);
  finding.evidence = {{"start-up to the first step", seconds, "s"}, {"whole run", run_s, "s"}};
  double known = 0;
  for (const Part& part : parts) {
    known += part.seconds;
    if (part.seconds >= 0.05 * seconds) finding.evidence.push_back({part.what, part.seconds, "s"});
  }
  finding.evidence.push_back({"imports and other work", std::max(0.0, seconds - known), "s"});
  finding.fix.change = NamedChange{is_known ? largest->setting : "start-up",
                                   is_known ? fmt::format("{:.1f} s", largest->seconds) : ""};
  finding.fix.summary =
      is_known ? largest->fix
               : "Profile what runs before the first step (python -X importtime), or train longer per start";
  if (largest == parts && is_scan) finding.fix.location = reads.location;
  // A change of one part leaves the others.
  const double saved = is_known ? largest->seconds / run_s : share;
  finding.ceiling_speedup = 1 / (1 - std::clamp(saved, 0.0, 0.99));
  return finding;
}

}  // namespace

const Rule kStartupShare{
    "startup-share",
    "Start-up dominates a short job: imports, dataset scan, compiling GPU code, communication set-up.",
    "The time from the start of the process to its first step after warm-up, against the whole run. The "
    "recorded calls of the training thread in that time show which part takes longest. Reads are a dataset "
    "scan "
    "only where their stacks are in the script's code and not in an import.",
    "A cache of the scan or of the compiled code, a build for the GPU's architecture, or a longer training "
    "per start.",
    kThresholds,
    evaluate,
    {},
    true};

}  // namespace gpuwatch::advise
