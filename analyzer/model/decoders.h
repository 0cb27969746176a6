// SPDX-License-Identifier: Apache-2.0
// Which sampled stacks show a file being decoded: an image, audio or video, a volume, an archive. A decoder
// that is one call into C (cv2.imread) leaves no frame, and is not told from the line that calls it. Pure.
#pragma once

#include <vector>

#include "analyzer/model/stacks.h"

namespace gpuwatch::model {

bool decodes_file(const StackFrame& frame);
bool decodes_files(const std::vector<StackFrame>& frames);

}  // namespace gpuwatch::model
