// SPDX-License-Identifier: Apache-2.0
// The recurring part of a thread's launches, found by equality of tokens alone (a token stands for a kernel
// or a kind of copy). Pure, linear in the number of tokens.
//
// The step of a training loop is the unit that holds every recurring kernel, so it is looked for between the
// occurrences of the rarest one: a hundred equal layers followed by one optimizer kernel are one step, not a
// hundred. The price: something that recurs every tenth step (a metric) may stretch the unit to ten steps.
//
// Repeats must cover most of the work: of the tokens, or of their weights (device time), where a graph's
// launch is one token for what the rounds before its capture launched one by one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gpuwatch::model {

struct LaunchPeriod {
  size_t length = 0;         // tokens of the usual repeat; 0: none found
  std::vector<size_t> ends;  // one past the last token of each repeat and, first, where the first one begins
};

inline constexpr size_t kMinRepeats = 10;  // fewer could be the layers of a network rather than its steps

// `weights`: of each token, empty: all equal. `min_repeats`: fewer than kMinRepeats only for tokens that are
// no part of a layer.
LaunchPeriod find_launch_period(std::span<const uint32_t> tokens, std::span<const double> weights = {},
                                size_t min_repeats = kMinRepeats);

// For loops over sentences or graphs, whose repeats differ in length: what lies between two occurrences of
// the rarest token holds the same tokens, each any number of times, and is half to twice as long as usual. At
// least three different ones: fewer recur by chance. `length` is that of the median repeat.
LaunchPeriod find_varying_period(std::span<const uint32_t> tokens, std::span<const double> weights = {});

}  // namespace gpuwatch::model
