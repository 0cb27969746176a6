// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "analyzer/advise/rule.h"
#include "analyzer/model/phases.h"

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
  const double seconds = double(startup.length()) / 1e9;
  const double run_s = double(process.last_seen - process.start) / 1e9;
  if (seconds < kLeastPart || run_s <= 0 || seconds / run_s < kLeastShare) return std::nullopt;

  const model::Thread& thread = process.threads[process.training_thread];
  const Part parts[] = {
      {"reading files", "dataset scan", "Scan the dataset once and keep the file list, or read it lazily",
       calls_s(thread, startup, {OpClass::Read, OpClass::Open, OpClass::Stat})},
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
       calls_s(thread, startup, {OpClass::Sleep, OpClass::ChildWait, OpClass::Poll, OpClass::Wait})}};
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
  finding.ceiling_speedup = 1 / (1 - std::min(share, 0.99));
  return finding;
}

}  // namespace

const Rule kStartupShare{
    "startup-share",
    "Start-up dominates a short job: imports, dataset scan, compiling GPU code, communication set-up.",
    "The time from the start of the process to its first step after warm-up, against the whole run. The "
    "recorded calls of the training thread in that time show which part takes longest.",
    "A cache of the scan or of the compiled code, a build for the GPU's architecture, or a longer training "
    "per start.",
    kThresholds,
    evaluate,
    true};

}  // namespace gpuwatch::advise
