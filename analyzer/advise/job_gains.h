// SPDX-License-Identifier: Apache-2.0
// What a finding of one rank gains the whole job, whose step is the slowest rank's: a change on the late rank
// gains down to the next rank's own work, and one on a rank that waits gains nothing. A change of the script
// acts on every rank: ranks without the finding lose the same part of the time that it is about, unless the
// late one has not got it: then it is about what the others do while they wait.
#pragma once

#include <vector>

#include "analyzer/advise/finding.h"
#include "analyzer/attribute/step_group.h"

namespace gpuwatch::advise {

// The findings of one row.
struct RankFindings {
  size_t row = 0;
  std::vector<Finding> findings;
};

struct JobFindings {
  std::vector<Finding> findings;  // in the order to apply them; what gains the job nothing is left out
  std::optional<predict::Prediction> together;
};

// `ranks`: of all members of the group, the one whose advice comes first in front.
JobFindings for_whole_job(const attribute::StepGroup& group,
                          const std::vector<attribute::RankAttribution>& rows,
                          std::vector<RankFindings> ranks);

// The same of another setting of the data loader, predicted for the member that is this row.
predict::Prediction for_whole_job(const attribute::StepGroup& group,
                                  const std::vector<attribute::RankAttribution>& rows, size_t row,
                                  const predict::Prediction& prediction);

}  // namespace gpuwatch::advise
