// SPDX-License-Identifier: Apache-2.0
// The throughput that a training script prints itself, found in its captured output: users believe their own
// numbers. Known forms: progress bars (tqdm, Lightning, Keras, rich), log lines with a number and a unit
// ("512.3 samples/s", "tok/sec: 1.2e5", "134 ms/step"), and the step times of PyTorch's ImageNet example,
// timm, nanoGPT, detectron2, mmengine, Megatron and fairseq. What is not clearly the speed of training
// (evaluation, downloads, parts of a step, elapsed time) is left out: better no value than a wrong one.
//
// Pure functions, safe from any thread; they throw nothing but std::bad_alloc. The output is hostile input:
// time is linear in its size, and every string of the result is printable ASCII.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace gpuwatch::trial {

struct OwnClock {
  std::string unit;         // "samples/s", "it/s", "ms/step", "ms (time)"; as printed, but for SI prefixes
  bool is_rate = true;      // higher is faster; else lower is
  double value = 0;         // median of the readings after the first quarter, which is warm-up
  double resolution = 0;    // half of the last printed digit, in `unit`: "2ms/step" is 2 +- 0.5
  size_t readings = 0;      // in all
  bool is_summary = false;  // of the whole run, warm-up included: Hugging Face's 'train_samples_per_second'
  std::string series;       // which of the output's numbers: words of the line, total of the bar
};

// Of several series the one with the most readings (at least three; a summary is taken only where there is no
// other), then samples before tokens, tokens before steps, rates before durations, the first printed before
// later ones.
std::optional<OwnClock> own_clock(std::string_view output);

// How much faster `after` is. Empty where the two are not the same series in the same unit, or are printed
// too coarsely to compare ("1s/step").
std::optional<double> own_speedup(const OwnClock& before, const OwnClock& after);

}  // namespace gpuwatch::trial
