// SPDX-License-Identifier: Apache-2.0
// The report's lines "no gain" and "may gain": what a user would try next, and what it would bring. Pure
// functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

// `input`: as recorded, without assumptions; `findings`: of this rank.
UnproposedChanges unproposed_changes(const RuleInput& input, const std::vector<Finding>& findings);

// What it means where training waits for data and no finding of the rank says what to do about it.
std::optional<Limit> stall_without_setting(const RuleInput& input, const std::vector<Finding>& findings);

}  // namespace gpuwatch::advise
