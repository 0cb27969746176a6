// SPDX-License-Identifier: Apache-2.0
// The part of the report that `gpuwatch analyze --kernels` adds: kernel classes, the kernels that take most
// of the time, how much communication is hidden, how far the host is ahead of the GPU.
#pragma once

#include "analyzer/report/layout.h"
#include "analyzer/report/report.h"

namespace gpuwatch::report {

void write_kernels(Layout& layout, const Report& report, const attribute::RankAttribution& rank);

}  // namespace gpuwatch::report
