// SPDX-License-Identifier: Apache-2.0
// Data that the training loop makes itself, where no loader is seen: the training thread was sampled in a
// generator of the script, in an iterator's __next__ or a dataset's __getitem__, or in a function that is
// named for it (`get_batch`), or in an iterator of a library that the loop iterates over, and not in a model
// that this called. That a frame is a generator's is known from Python 3.11 on. Pure.
#pragma once

#include <optional>
#include <vector>

#include "analyzer/model/sampled_share.h"
#include "analyzer/model/stacks.h"

namespace gpuwatch::model {

// Where a sampled stack (innermost first) is in such code.
struct DataCode {
  StackFrame function;  // the outermost: what the loop calls
  StackFrame line;      // the innermost line of the script's; `function` where no frame is the script's
};
std::optional<DataCode> data_code(const std::vector<StackFrame>& frames);
// In such code, waiting in a queue's get(), a future's result() or a pool's: another thread or process of the
// program makes the data, and data_code() has none. What a socket brings, nothing else of the program makes.
std::optional<DataCode> awaited_data_code(const std::vector<StackFrame>& frames);
// Where it waits, by Python's own means, for what another thread or process makes (waits_for_a_result).
std::optional<DataCode> awaiting_code(const std::vector<StackFrame>& frames);

struct OwnInput {
  size_t samples = 0;         // of the training thread
  SampledShare share;         // of them, in such code
  StackFrame function, line;  // that most of it was in
};

// Samples within `intervals` (sorted, disjoint) in what `find` finds, one of those above. nullopt with
// fewer than kLeastStackSamples, or without such code.
using FindDataCode = std::optional<DataCode> (*)(const std::vector<StackFrame>&);
std::optional<OwnInput> own_input(const Run& run, const Process& process,
                                  const std::vector<TimeSpan>& intervals, FindDataCode find = data_code);

}  // namespace gpuwatch::model
