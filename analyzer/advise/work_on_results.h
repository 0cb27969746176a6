// SPDX-License-Identifier: Apache-2.0
// The script's work on what it has just fetched from the GPU: a metric of `.cpu().numpy()`. The host waits
// before it, and the GPU idles during it. Pure functions.
#pragma once

#include "analyzer/advise/host_gaps.h"

namespace gpuwatch::advise {

// Copies to the host of more bytes are data; a loss or a count has fewer.
inline constexpr double kFewBytes = 4096;

// Whether the event copies `bytes` or more this way. Requires `input.device` and `input.assumed_streams`.
bool copies(const RuleInput& input, const predict::HostEvent& event, trace::RecordKind kind, uint64_t bytes);

// Of the step and of the steps: less of the script's work is no `host-work`.
inline constexpr double kLeastHostWork = 0.05, kLeastWorkSteps = 0.5;

// Without the synchronization points the launch queue keeps the device busy during the script's work.
double step_ms_without_waits(const RuleInput& input);

// Enough of the script's work for a finding, most of it of this kind, and the step is as short without it as
// without the wait and the copies: the work is the cause (`host-work`), and to read the data later
// (`sync-per-step`) another way to the same time.
bool is_mostly_on_results(const RuleInput& input, const HostGaps& gaps);

}  // namespace gpuwatch::advise
