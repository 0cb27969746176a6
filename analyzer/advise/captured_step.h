// SPDX-License-Identifier: Apache-2.0
// The replay of a step whose launches are captured in a CUDA graph. The interval spans what is not known: how
// closely the graph's kernels follow each other on this device, whether a long gap that does not recur
// remains, and the overhead of torch.compile. Pure.
#pragma once

#include <optional>
#include <vector>

#include "analyzer/advise/host_gaps.h"
#include "analyzer/advise/launch_sources.h"
#include "analyzer/advise/sync_places.h"

namespace gpuwatch::advise {

inline constexpr double kGraphKernelGapNs = 1e3;
// Host overhead of a step whose forward and backward are compiled with mode="reduce-overhead" (guards, CUDA
// graph trees, gradient accumulation), in mean launches of the same model before. Measured with PyTorch 2.13
// on the six models of tests/torch_cuda/programs/small_models.py with 37, 47, 131, 163, 196 and 361 launches
// a step, three times each, on a machine of varying speed: 30 to 33, 29 to 52, 37 to 46, 54 to 68, 61 to 84
// and 62 to 129 launches. These two constants give 36, 37, 50, 54, 59 and 84.
inline constexpr double kCompiledLaunches = 30, kCompiledShare = 0.15;
inline constexpr double kLeastOfKept = 0.5, kMostOfKept = 1.5;

// Keeps references.
class CapturedStep {
 public:
  // Once the host waits no longer at `gone`.
  CapturedStep(const RuleInput& input, const HostGaps& gaps, const std::vector<SyncPlace>& gone)
      : input_(input), gaps_(gaps), gone_(gone) {}
  // By torch.compile(model), which leaves the launches of these as they are.
  CapturedStep(const RuleInput& input, const HostGaps& gaps, const std::vector<SyncPlace>& gone,
               const std::vector<LaunchSource>& left_alone)
      : input_(input), gaps_(gaps), gone_(gone), left_alone_(&left_alone) {}

  predict::StreamReplayInput expected() const;
  bool is_worth_it() const;
  std::optional<predict::Prediction> prediction() const;

 private:
  predict::StreamReplayInput captured(double of_kept, double recurs, double gap_ns) const;
  void leave_alone(predict::StreamReplayInput& recording) const;

  const RuleInput& input_;
  const HostGaps& gaps_;
  const std::vector<SyncPlace>& gone_;
  const std::vector<LaunchSource>* left_alone_ = nullptr;
};

}  // namespace gpuwatch::advise
