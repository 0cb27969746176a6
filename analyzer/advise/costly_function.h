// SPDX-License-Identifier: Apache-2.0
// The function that making batches takes most of its time in, by stack samples of the workers or, without
// any, of the training thread that does their work: a fix for costly transforms names it. Pure functions.
#pragma once

#include <string>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

struct CostlyFunction {
  std::string name;      // "Views.__getitem__", printable; empty: too few samples, and no code is known
  std::string library;   // whose it is, where none of the script's was seen: "torchvision"
  std::string location;  // "train.py:12", of the script; empty: not known
  double share = 0;      // of the samples; 0: not sampled, `name` is what makes a sample
  double decoding = 0;   // of the samples: in a decoder of files
};
CostlyFunction costly_function(const RuleInput& input);

// Of the stack samples of making batches, those in a decoder of files; 0 if there are too few.
double decoding_share(const RuleInput& input);

// Names it in summary, location and the first row of evidence. Of the ways to have less work only those that
// this job has: a GPU to do it on, files that are decoded.
void name_costly_function(Finding& finding, const RuleInput& input);

inline constexpr double kLeastDecoding = 0.2;
inline constexpr Threshold kDecoding{
    "stack samples in decoders of files, to advise smaller ones", kLeastDecoding,
    "of those of making batches",
    "below it something else takes far more. A decoder that is one call into C (cv2.imread) is not seen"};

}  // namespace gpuwatch::advise
