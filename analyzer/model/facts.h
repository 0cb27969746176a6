// SPDX-License-Identifier: Apache-2.0
// What a process recorded once about itself and its machine, as numbers. Pure functions.
#pragma once

#include "analyzer/model/run.h"

namespace gpuwatch::model {

// 0 where the fact is missing or not a number.
double number_fact(const Process& process, const char* key);

}  // namespace gpuwatch::model
