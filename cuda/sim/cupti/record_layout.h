// SPDX-License-Identifier: Apache-2.0
// Which release of CUPTI the stand-in plays (key cupti_api_version) and how long its records are. Records
// only grew at their ends from 11.8 on, so that an older release's record is the beginning of a newer one's
// (cupti_activity.h and cupti_activity_deprecated.h of CUDA 13.0). CUpti_ActivityKernel11 of 13.1 is in no
// header that we have: the release notes say that it adds the priority, hence eight bytes more. Any thread.
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>

namespace gpuwatch::sim {

inline constexpr uint32_t kCupti12_0 = 19, kCupti12_2 = 20, kCupti12_3 = 21, kCupti12_4 = 22, kCupti12_5 = 23;
inline constexpr uint32_t kCupti12_8 = 26, kCupti13_0 = 130000, kCupti13_1 = 130100;

uint32_t cupti_version();

// Size of a record by its kind in that release, 0 if it is not produced.
size_t record_size(CUpti_ActivityKind kind);

inline constexpr size_t kKernel11Bytes = sizeof(CUpti_ActivityKernel10) + 8;
inline constexpr size_t kLargestRecordBytes = kKernel11Bytes;

// Where the record says when it began; 0 where the kind has no device times.
size_t start_offset(CUpti_ActivityKind kind);

}  // namespace gpuwatch::sim
