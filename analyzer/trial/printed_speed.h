// SPDX-License-Identifier: Apache-2.0
// What one line of a program's output says of the speed of training: numbers with a unit that is known. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpuwatch::trial {

// The table of units. Where series have as many readings, the lower rank is taken.
enum Rank : uint8_t { kSamples, kTokens, kSteps, kDuration, kTime };

struct Unit {
  std::string_view name;
  bool is_rate = true;
  Rank rank = kSamples;
  double factor = 1;        // printed to `name`
  bool is_inverse = false;  // printed is the inverse of `name`
};

struct Reading {
  Unit unit;
  double value = 0, resolution = 0;
  size_t at = 0;            // its first token in the line
  std::string label;        // the word that names the number
  bool is_summary = false;  // of a whole run
  bool may_be_elapsed = false;
  // Which bar or kind of line it is in: the same in every line of it, whatever its numbers are and whatever
  // metrics are added behind.
  std::string kind;
};

// What is not clearly the speed of training (evaluation, parts of a step, elapsed time) is left out.
std::vector<Reading> speeds_in(std::string_view line);

}  // namespace gpuwatch::trial
