// SPDX-License-Identifier: Apache-2.0
// A trace that uses every table and kind of record, and damage to it.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace gpuwatch::test {

// Two processes; 30 steps of one with a loader of two workers and a device.
std::vector<uint8_t> a_trace_with_everything();

// One to eight edits: bits, bytes, words at the ends of ranges, one part over another, a cut.
void mutate(std::vector<uint8_t>& bytes, std::mt19937& random);

}  // namespace gpuwatch::test
