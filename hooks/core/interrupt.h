// SPDX-License-Identifier: Apache-2.0
// `gpuwatch try` ends a trial at the end of a training step, where no batch is half trained and no file half
// written: it creates the file that GPUWATCH_INTERRUPT names, and the training process sends itself SIGINT,
// once. Thread safe. Signal safe. Without the setting: one load and a comparison.
#pragma once

namespace gpuwatch::hooks {

void interrupt_if_asked() noexcept;  // at the end of a step; about 1 us while the file is not there

}  // namespace gpuwatch::hooks
