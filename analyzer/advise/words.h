// SPDX-License-Identifier: Apache-2.0
// The words of the framework that made a loader: a rule names a setting as torch does; where Lightning, the
// Hugging Face Trainer or another framework stands between the user and torch, the fix says what to write
// there. Fix::setting and Fix::value stay torch's: they are the stable keys. Pure functions.
#pragma once

#include "analyzer/advise/finding.h"

namespace gpuwatch::advise {

// `loader`: the loader that the finding is about, null if none.
void use_words_of_framework(Finding& finding, const model::Loader* loader);

}  // namespace gpuwatch::advise
