// SPDX-License-Identifier: Apache-2.0
// What a rank's communication with the others costs it, and what a change of it can gain. Pure functions.
#pragma once

#include <string_view>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

// What is waiting for ranks that come later, of the step's time: no change of the communication itself
// shortens it. 0 where the other ranks' steps are not known.
double waiting_for_ranks(const RuleInput& input);

// A collective that adds up what ranks have, as of gradients, by the name of its kernel.
bool reduces(std::string_view kernel);

// Neither hiding nor shortening collectives removes more of the step than what is exposed, nor the rest of
// the device's work.
double ceiling_without_communication(const RuleInput& input, double exposed);

}  // namespace gpuwatch::advise
