// SPDX-License-Identifier: Apache-2.0
// What no finding is about. A report that lists findings only leaves the reader of a job with a large part
// unexplained to think that it has none. Shares of the recorded steps; pure functions, apart from reading
// debug information (location.h).
#pragma once

#include <string>
#include <vector>

#include "analyzer/advise/finding.h"

namespace gpuwatch::advise {

// Of the step, the time of this bottleneck's categories that no finding of the rank covers by half.
double unexplained_share(const model::Run& run, const attribute::RankAttribution& rank,
                         const std::vector<Finding>& findings, attribute::Bottleneck bottleneck);

// One sentence for each category that takes 5% of the step or more and that no finding explains: how much,
// of what kind, and where most of it was seen.
std::vector<Limit> unexplained(const model::Run& run, const attribute::RankAttribution& rank,
                               const std::vector<Finding>& findings);

}  // namespace gpuwatch::advise
