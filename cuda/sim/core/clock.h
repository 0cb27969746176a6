// SPDX-License-Identifier: Apache-2.0
// The simulated device's clock and the ways a host thread spends time in it.
// Units: nanoseconds of CLOCK_MONOTONIC, which is the device clock too. Any thread; cannot fail.
#pragma once

#include <cstdint>

namespace gpuwatch::sim {

using Ns = int64_t;

Ns now_ns();

// A blocked call: sleeps until `spin_ns` before the deadline, spins for the rest. The first sleep of a thread
// sets its timer slack to 1 ns: with the default 50 us the median overshoot of a 100 us wait was 13 us, with
// 1 ns it is 0.25 us.
void sleep_until(Ns deadline_ns, Ns spin_ns);

// A busy call: the thread keeps its core, as it does in a driver's launch path.
void spin_until(Ns deadline_ns);

}  // namespace gpuwatch::sim
