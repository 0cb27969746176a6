// SPDX-License-Identifier: Apache-2.0
// CUPTI's clock: CLOCK_REALTIME as it stood when the library was loaded, plus the configured skew, drift
// and step; or the client's own clock once it registered a timestamp callback. Any thread.
#pragma once

#include <cstdint>

#include "core/clock.h"

namespace gpuwatch::sim {

// CLOCK_MONOTONIC ns to CUPTI ns.
uint64_t cupti_time(Ns monotonic_ns);

void use_client_clock(uint64_t (*clock)());

}  // namespace gpuwatch::sim
