// SPDX-License-Identifier: Apache-2.0
#include "hooks/core/evidence.h"

#include "libinject/record/recorder.h"

namespace gpuwatch::hooks {

bool begin_recording(const char* evidence) noexcept {
  if (record::is_recording()) {
    record::join_recording();
    return true;
  }
  return record::is_dormant() && record::activate(evidence);
}

}  // namespace gpuwatch::hooks
