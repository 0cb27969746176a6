// SPDX-License-Identifier: Apache-2.0
// The order of findings, and what they gain one on top of the other. Pure functions.
//
// What comes first is what a user should do first: the change with the largest gain that is known. A gain is
// known by its low end; of an upper bound only half is counted, because it says no more than that the gain is
// somewhere between nothing and that. So does a predicted gain that leaves out what may have to stay
// (Finding::may_have_to_stay), and of one whose range is too wide to be given half of what is expected. Among
// changes for one bottleneck, which are about the same time, a predicted one comes before upper bounds,
// except a loader's option that gains less than half of what a change of the code may bring; of two upper
// bounds the option comes first, unless the other could bring twice as much.
#pragma once

#include <optional>
#include <vector>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

// Of the step, what can be counted on: see above. 0 where a change may as well lose.
double expected_recovery(const Finding& finding);

// A rule compares replays with each other; the prediction starts from the recorded step, and decides. One
// that may as well be a loss is named only where a large gain is expected.
bool is_worth_naming(const RuleInput& input, const Finding& finding);

// The finding to apply first; end() only of an empty range. `info` comes after all complaints.
std::vector<Finding>::iterator best_of(std::vector<Finding>& findings);
// In that order.
void sort_by_recovery(std::vector<Finding>& findings);

struct RankedFindings {
  std::vector<Finding> findings;  // best first, alternatives last
  std::optional<predict::Prediction> together;
};

// Evaluates all rules on one rank, each finding predicted on top of those before it: one that gains nothing
// any more becomes an alternative, one that only shows once the first is applied (a longer buffer for more
// workers) appears.
RankedFindings rank_findings(const RuleInput& recorded);

}  // namespace gpuwatch::advise
