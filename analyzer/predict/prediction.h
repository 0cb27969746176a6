// SPDX-License-Identifier: Apache-2.0
// A predicted gain: always from replaying the recorded steps under a change, never from a share. Times are
// milliseconds a step (metric "step_ms") or samples a second. Plain values, safe to share between threads.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace gpuwatch::predict {

struct Estimate {
  double low = 0, expected = 0, high = 0;
};

// How well a replay reproduces the unchanged run; decides whether a prediction may be given at all (design
// section 7): up to 3 % a prediction, up to 10 % a wider interval, above or under 20 steps only a ceiling.
enum class Trust { kPredict, kWiden, kCeilingOnly };

inline constexpr size_t kLeastReplaySteps = 20;  // fewer allow upper bounds only

// What is left when the replay itself is exact: a second run of the same job is not the same run. Three runs
// of one loader setting lay 2.2 % apart (mean over 12 settings, one machine), which is a standard deviation
// of 1.3 %: nine in ten pairs of runs differ by less than 3 %.
inline constexpr double kRunToRun = 0.03;

struct ReplayCheck {
  double measured_ms = 0;
  double replayed_ms = 0;
  size_t steps = 0;
  double error() const { return measured_ms > 0 ? (replayed_ms - measured_ms) / measured_ms : 0; }
  Trust trust() const;
};

struct Prediction {
  std::string metric = "step_ms";  // or "samples_per_s"
  double now = 0;
  Estimate value;    // of the metric after the change
  Estimate speedup;  // now / after (or after / now for samples_per_s); low <= expected <= high
  std::vector<std::string> assumptions;
  ReplayCheck replay{};  // of the unchanged run, by the replay that this rests on
};

// Of what a recording's own spread leaves open at either end, the part beyond the spread from run to run,
// which step_prediction() adds to every range: the two are independent, and both do not fall to one side.
Estimate beyond_run_to_run(Estimate sampled);

inline constexpr double kMostReplayError = 0.10;  // of a replay that predictions rest on

// Turns a replayed step time and its bootstrap spread into a prediction, widened by what the replay of the
// unchanged run was off by. Empty where `check` allows only a ceiling, or the interval would be wider than
// the value. `floor_ms` bounds the interval below: no change of the input can make a step shorter than the
// work that is not input.
std::optional<Prediction> step_prediction(const ReplayCheck& check, Estimate replayed_ms, double now_ms,
                                          double floor_ms);

// What is between two predictions of step times from the same step; empty as above.
std::optional<Prediction> between(const Prediction& best, const Prediction& worst);

// The same for a throughput: samples a second after the change, from step times.
Prediction as_samples_per_s(const Prediction& step, double samples_now, double samples_after);

}  // namespace gpuwatch::predict
