// SPDX-License-Identifier: Apache-2.0
// The ground truth: GWSIM_TRUTH=<file> (`%p` becomes the process id) gets one JSON object a line,
// in no order.
//   {"type":"header", ...}    device, clock, process, the configuration as read
//   {"type":"op", ...}        one device operation, when its times became known
//   {"type":"host", ...}      one call of the program into CUDA or NCCL: what the thread did inside
// Times in ns of CLOCK_MONOTONIC. Each thread fills a buffer of its own; a full one is written with
// one write(2), the rest at exit. A killed process loses at most the unwritten buffers, a forked
// child writes nothing.
#pragma once

#include <cstdint>

#include "clock.h"
#include "op.h"

namespace gpuwatch::sim {

// False without GWSIM_TRUTH: then nothing below does anything.
bool truth_enabled();

void truth_op(const Op& op);

// A call that ends now. until_ns: the simulated time that it waited for, 0 if it waited for none.
void truth_host(const char* api, uint32_t correlation, Ns begin_ns, Ns until_ns);

void truth_flush();

}  // namespace gpuwatch::sim
