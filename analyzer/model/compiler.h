// SPDX-License-Identifier: Apache-2.0
// What a compiler of the job did (torch.compile, Triton, JAX, TensorFlow), by the Python stacks recorded with
// its calls (waits for its processes, files of its cache), and by stack samples of the training thread, which
// also see one that makes no call. Pure functions.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "analyzer/model/run.h"
#include "analyzer/model/sampled_share.h"
#include "analyzer/model/stacks.h"

namespace gpuwatch::model {

// Whether a stack's text, or a frame's file, is of a compiler at work.
bool is_of_compiler(std::string_view text);

// False also where the call has no stack: a call of less than 1 ms, or one of a thread that does not train.
bool is_in_compiler(const Run& run, const Thread& thread, const HostCall& call);

// The user's line that had its code compiled.
std::optional<StackFrame> compiled_line_of(const Run& run, const Thread& thread, const HostCall& call);

struct CompilerSamples {
  SampledShare share;        // of the samples
  double share_at_most = 0;  // with what comes before and after a compilation and may be part of it
  size_t spells = 0;         // times that samples showed the compiler after something else
  size_t traced_again = 0;   // compilations after which JAX traced again what it had traced before
  StackFrame line;           // the user's, that most of it was for; without a file where no sample has one
};

// Within `intervals` (sorted, disjoint). nullopt with fewer than kLeastStackSamples, or without a compiler.
std::optional<CompilerSamples> compiler_samples(const Run& run, const Process& process,
                                                const std::vector<TimeSpan>& intervals);

}  // namespace gpuwatch::model
