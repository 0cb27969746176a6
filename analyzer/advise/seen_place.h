// SPDX-License-Identifier: Apache-2.0
// The line of the script where the time of a finding was seen, for those whose calls left no stack of their
// own: only calls of a millisecond and more keep one. Pure.
#pragma once

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

// Sets the fix's location where a finding about the training thread has none, and a good part of the stack
// samples within its time lies in one function of the user's.
void name_seen_place(Finding& finding, const RuleInput& input);

}  // namespace gpuwatch::advise
