// SPDX-License-Identifier: Apache-2.0
// What the change from one pass over a loader to the next costs, measured on a recorded run. Nanoseconds;
// pure functions.
#pragma once

#include <optional>
#include <vector>

#include "analyzer/attribute/attribution.h"
#include "analyzer/model/run.h"
#include "analyzer/predict/loader_replay.h"

namespace gpuwatch::predict {

// Calls of next() that returned no batch: the last of a pass, which ends the workers. Sorted.
std::vector<model::Interval> last_nexts(const model::Process& process, uint32_t loader);

// The call that ended the pass because there were no more data, null if it broke off before. `next_start`: of
// the pass that follows, 0 if none does.
const model::Interval* last_next_of(const model::LoaderPass& pass, model::Ns next_start,
                                    const std::vector<model::Interval>& last_nexts);

Restart measure_restart(const model::Process& process, uint32_t loader, const HandOver& hand_over);

// Of a pass: the script's own work before it, within the step that its first batch belongs to. nullopt: the
// pass began before that step did.
std::optional<double> own_restart_ns(const attribute::RankAttribution& rank, const model::LoaderPass& pass,
                                     const std::vector<model::Interval>& last_nexts);

model::Ns first_sent(const model::LoaderPass& pass);  // 0: none
model::Ns first_next(const model::LoaderPass& pass);  // 0: none

}  // namespace gpuwatch::predict
