// SPDX-License-Identifier: Apache-2.0
// A process is dormant (no file, no thread, no output) until it shows that it is worth recording: a CUDA
// call, NCCL, a loader, an optimizer step. Thread safety: any. Cheap once recording is on or off for good.
// errno is kept.
#pragma once

namespace gpuwatch::hooks {

// True when recording is on afterwards.
bool begin_recording(const char* evidence) noexcept;

}  // namespace gpuwatch::hooks
