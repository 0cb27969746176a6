// SPDX-License-Identifier: Apache-2.0
// The step in which few operations on all tensors make the launches of one source: an optimizer with
// fused=True, torch._foreach_ functions, one operation on the batch in place of a loop over samples. Pure.
#pragma once

#include <optional>
#include <vector>

#include "analyzer/advise/host_gaps.h"
#include "analyzer/advise/launch_sources.h"

namespace gpuwatch::advise {

// The interval spans what the kernels then take: as long as before, or next to nothing. Keeps references.
class Merged {
 public:
  Merged(const RuleInput& input, const HostGaps& gaps, const LaunchSource& source)
      : input_(&input), gaps_(&gaps), source_(&source) {}

  const LaunchSource& source() const { return *source_; }
  predict::StreamReplayInput expected() const;
  double speedup() const;
  // nullopt: no replay, or of a loss, with which the backward pass becomes shorter by an unknown part.
  std::optional<predict::Prediction> prediction() const;
  // With all that the script does between these launches: a loop over samples, written as one operation on
  // the batch, gained 4.4x where a bound that left its Python in place was 3.4x.
  double bound() const;

 private:
  predict::StreamReplayInput at_best(double longest_gap_ns) const;

  const RuleInput* input_;
  const HostGaps* gaps_;
  const LaunchSource* source_;
};

// The source with which most is gained; nullopt where that is too little to change anything.
std::optional<Merged> best_merged(const RuleInput& input, const HostGaps& gaps,
                                  const std::vector<LaunchSource>& sources);

// PyTorch's multi_tensor_apply, of which fused and foreach optimizers are made, takes 30 to 110 tensors a
// launch (aten/src/ATen/native/cuda/MultiTensorApply.cuh).
inline constexpr double kTensorsALaunch = 30;

}  // namespace gpuwatch::advise
