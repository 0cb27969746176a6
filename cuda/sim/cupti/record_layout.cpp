// SPDX-License-Identifier: Apache-2.0
#include "record_layout.h"

#include <cstddef>

#include "core/config.h"

namespace gpuwatch::sim {

uint32_t cupti_version() {
  const int configured = config().cupti_api_version;
  return configured ? static_cast<uint32_t>(configured) : CUPTI_API_VERSION;
}

size_t record_size(CUpti_ActivityKind kind) {
  const uint32_t version = cupti_version();
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      if (version >= kCupti13_1) return kKernel11Bytes;
      if (version >= kCupti13_0) return sizeof(CUpti_ActivityKernel10);
      return version >= kCupti12_0 ? sizeof(CUpti_ActivityKernel9) : sizeof(CUpti_ActivityKernel8);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return version >= kCupti12_8 ? sizeof(CUpti_ActivityMemcpy6) : sizeof(CUpti_ActivityMemcpy5);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(CUpti_ActivityMemcpyPtoP4);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return version >= kCupti12_8 ? sizeof(CUpti_ActivitySynchronization2)
                                   : sizeof(CUpti_ActivitySynchronization);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      if (version >= kCupti12_4) return sizeof(CUpti_ActivityOverhead3);
      return version >= kCupti12_2 ? sizeof(CUpti_ActivityOverhead2) : sizeof(CUpti_ActivityOverhead);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:  // the header does not say with which 12.x it grew
      return version >= kCupti12_3 ? sizeof(CUpti_ActivityGraphTrace2) : sizeof(CUpti_ActivityGraphTrace);
    default:
      return 0;
  }
}

size_t start_offset(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return offsetof(CUpti_ActivityKernel10, start);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return offsetof(CUpti_ActivityMemcpy6, start);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return offsetof(CUpti_ActivityMemcpyPtoP4, start);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return offsetof(CUpti_ActivityMemset4, start);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      return offsetof(CUpti_ActivityGraphTrace2, start);
    default:
      return 0;
  }
}

}  // namespace gpuwatch::sim
