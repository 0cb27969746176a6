// SPDX-License-Identifier: Apache-2.0
// From attributed ranks to a diagnosis: evaluates every rule on every rank, merges what ranks share, ranks
// the findings by predicted gain (low end first), predicts the second on top of the first, and names the
// verdict and everything that could not be seen. Pure function of its arguments, apart from reading debug
// information of the recorded programs (location.h).
#pragma once

#include <vector>

#include "analyzer/advise/finding.h"
#include "analyzer/attribute/attribution.h"
#include "analyzer/model/run.h"
#include "analyzer/predict/loader_replay.h"

namespace gpuwatch::advise {

// What torch.profiler's users record: schedule(active=3), of which the first may be warm-up. Shares and upper
// bounds are given from here on; predictions need predict::kLeastReplaySteps.
inline constexpr size_t kLeastSteps = 2;

Diagnosis diagnose(const model::Run& run, const std::vector<attribute::RankAttribution>& ranks);

// What a step of this rank would take with another loader setting; nullopt where the replay is not trusted or
// there is no loader to replay.
std::optional<predict::Prediction> what_if(const model::Run& run, const attribute::RankAttribution& rank,
                                           predict::LoaderSetting setting);

// Where what_if() gives none because the recording does not tell whether storage serves so many readers: the
// step in the best and the worst case.
std::optional<predict::Estimate> what_if_open(const model::Run& run, const attribute::RankAttribution& rank,
                                              predict::LoaderSetting setting);

// The rank that the others wait for, else the one whose device is busy least: the verdict is its. Null if
// none has steps.
const attribute::RankAttribution* worst_rank(const std::vector<attribute::RankAttribution>& ranks,
                                             const std::vector<attribute::StepGroup>& groups);
Verdict verdict(const model::Run& run, const std::vector<attribute::RankAttribution>& ranks,
                const std::vector<Finding>& findings, const std::vector<attribute::StepGroup>& groups = {});
// "Ranks 0, 2: ": of whom something is said, where the job has several ranks; else "".
std::string ranks_prefix(const model::Run& run, const std::vector<attribute::RankAttribution>& ranks,
                         const std::vector<uint32_t>& numbers);
std::vector<Limit> limits(const model::Run& run, const std::vector<attribute::RankAttribution>& ranks);

}  // namespace gpuwatch::advise
