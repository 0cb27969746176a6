// SPDX-License-Identifier: Apache-2.0
// Where in the script the training thread was seen at work: stack samples that a thread of the recorder took
// of it (hooks/stacks/training_stacks.h), some 16 a second. Pure functions; nanoseconds.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "analyzer/model/run.h"
#include "analyzer/model/sampled_share.h"
#include "analyzer/model/stacks.h"

namespace gpuwatch::model {

// Fewer samples name no place: 5 of 10 at one place mean that it has more than a fifth (binomial, 95%).
inline constexpr size_t kLeastStackSamples = 10;

// Of the DataLoader, which calls the dataset and collate_fn.
bool is_loader_fetch(const StackFrame& frame);

// Those of the training thread within `intervals` (sorted, disjoint).
std::vector<const WorkerStack*> training_samples(const Process& process,
                                                 const std::vector<TimeSpan>& intervals);

// Those of other threads that had the GIL then.
std::vector<const WorkerStack*> other_thread_samples(const Process& process,
                                                     const std::vector<TimeSpan>& intervals);

// The user's functions that the samples within `intervals` (sorted, disjoint) were in, by share, largest
// first; empty if there are fewer than kLeastStackSamples.
std::vector<SeenFunction> training_functions(const Run& run, const Process& process,
                                             const std::vector<TimeSpan>& intervals);

// The same of the innermost functions outside torch and Python's own library, the user's or a package's:
// where the user's own line is one call, of trainer.train() or model.learn(), these say more.
std::vector<SeenFunction> innermost_functions(const Run& run, const Process& process,
                                              const std::vector<TimeSpan>& intervals);

// The same of the innermost functions outside torch and Python's own library that a DataLoader called in the
// training thread to make a batch: of the dataset, or of collate_fn.
std::vector<SeenFunction> fetch_functions(const Run& run, const Process& process,
                                          const std::vector<TimeSpan>& intervals);

// The same of the user's functions that make a batch, called by a DataLoader in the training thread: the
// user's frame within the fetch, and without one a package's. The line of the training loop is none of them.
std::vector<SeenFunction> making_functions(const Run& run, const Process& process,
                                           const std::vector<TimeSpan>& intervals);

// Of the training thread's samples within `intervals`, by weight, those that pass the test; zeros with fewer
// than kLeastStackSamples. `frames` are empty where the text was lost.
using StackTest = std::function<bool(const WorkerStack& sample, const std::vector<StackFrame>& frames)>;
SampledShare sampled_share_of(const Run& run, const Process& process, const std::vector<TimeSpan>& intervals,
                              const StackTest& is_it);

// The user's line that most of them which are in a package, or in what another one has for it
// (torch/utils/tensorboard), were called from. nullopt where fewer than kLeastStackSamples reach that line.
std::optional<StackFrame> caller_of(const Run& run, const Process& process,
                                    const std::vector<TimeSpan>& intervals, const std::string& package);

// Those in a decoder of files (model/decoders.h).
double decoding_share(const Run& run, const Process& process, const std::vector<TimeSpan>& intervals);

// Of the whole recording.
std::vector<SeenFunction> training_functions(const Run& run, const Process& process);

// The one of them that has half of the samples or more.
std::optional<SeenFunction> main_training_function(const Run& run, const Process& process,
                                                   const std::vector<TimeSpan>& intervals);

}  // namespace gpuwatch::model
