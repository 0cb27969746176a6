// SPDX-License-Identifier: Apache-2.0
// What both forms of the report say about a run, computed once. Nanoseconds and shares; pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/report/report.h"

namespace gpuwatch::report {

struct StepFacts {
  size_t count = 0, recorded = 0;
  double mean_ms = 0, p50_ms = 0, p95_ms = 0;
  double samples_per_step = 0, samples_per_s = 0;
  std::string source;
};

struct LoaderFacts {
  const model::Loader* loader = nullptr;
  size_t iterators = 0;  // most that lived beside each other
  size_t batches = 0;
  double wait_s = 0;  // in next() calls that returned a batch
  double fetch_ms_mean = 0;
};

StepFacts step_facts(const attribute::RankAttribution& rank);
std::vector<LoaderFacts> loader_facts(const model::Process& process);

std::string script_name(
    const model::Process& process);  // "train.py"; of the program, where no script is known
std::string fact(const model::Process& process, const std::string& key);  // "" if unknown
std::string framework(const model::Process& process);                     // "torch 2.13.0", "" if none
std::string framework_words(const model::Process& process);               // "PyTorch 2.13.0", "" if none
std::string device_name(const Report& report, const attribute::RankAttribution& rank);  // "cpu" without one
std::string end_words(
    const model::Process& process);  // "exited", "killed", "running", "exit code 3", "interrupted"
bool was_interrupted(const model::Process& process);  // by the library, because `gpuwatch try` asked for it

// What GPUWATCH_APPLY changed in this process, and what it did not: "num_workers=4 (was 0) at train.py:88".
// Of its workers, too.
std::vector<std::string> applied_words(const model::Run& run, const model::Process& process);
std::vector<std::string> not_applied_words(const model::Process& process);

// What a thread had entered and not left when its process was last seen.
struct OpenCallWords {
  std::string sentence;  // "training thread 812 in DataLoader.__next__, 0.4 s before the last record"
  bool is_training = false;
};
std::vector<OpenCallWords> open_call_words(const model::Run& run, const model::Process& process);

// How much faster a job may get by what has no prediction; none where that says nothing.
std::optional<double> shown_bound(const advise::Finding& finding);

double duration_s(const model::Run& run);
double recorded_share(const Report& report);  // of the steps
// Estimated; nothing for a trace that another profiler recorded.
std::optional<double> overhead_share(const Report& report);
// Of kernels and launches, those that have each other; 1 without any.
double matched_share(const model::Run& run);

// "148", "14.8", "1.48", "0.15": what a person reads of a measured number.
std::string three_digits(double value);

}  // namespace gpuwatch::report
