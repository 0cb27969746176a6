// SPDX-License-Identifier: Apache-2.0
// A place in Python as every report says it: the function, and the file without its folders. Printable.
#pragma once

#include <string>

#include "analyzer/model/stacks.h"

namespace gpuwatch::advise {

// "train.py:12" of "/home/a/train.py:12"; "notebook cell, line 5".
std::string short_location(const std::string& location);
// "augment (train.py:12)"
std::string place_words(const model::StackFrame& frame);

}  // namespace gpuwatch::advise
