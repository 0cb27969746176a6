// SPDX-License-Identifier: Apache-2.0
// What Kineto's and PyTorch's names say: of copies ("Memcpy HtoD (Pinned -> Device)"), of calls into CUDA, of
// what the profiler and PyTorch mark. Pure functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "analyzer/model/run.h"

namespace gpuwatch::model {

struct KinetoCopy {
  trace::RecordKind kind = trace::RecordKind::CopyOther;
  uint8_t flags = 0;        // trace::kSourcePageable and so on
  uint8_t direction = 255;  // as in trace::CallDetail
  uint8_t memory = 0;       // as in trace::CallDetail
};
KinetoCopy kineto_copy(std::string_view name);

bool is_hip_call(std::string_view name);  // of AMD's HIP
// The grid of these launches is in threads, not in blocks (hipExtModuleLaunchKernel's globalWorkSize).
bool counts_threads(std::string_view launch);

// Other: says nothing, as do the calls that our own hooks leave alone (queries).
trace::OpClass cuda_call_class(std::string_view name);

enum class KinetoMark { kOther, kStep, kOptimizerStep, kLoaderNext, kCollective };
KinetoMark kineto_mark(std::string_view name);
trace::OpClass class_of_mark(KinetoMark mark);

// The loader whose iterator made this mark. An iterator without workers is a class of its own in PyTorch.
Loader described_loader(uint32_t id, std::string_view name);

}  // namespace gpuwatch::model
