// SPDX-License-Identifier: Apache-2.0
// What the change from one epoch over a loader to the next costs, measured on a recorded run. Nanoseconds;
// pure functions.
#pragma once

#include <optional>
#include <vector>

#include "analyzer/attribute/attribution.h"
#include "analyzer/model/run.h"
#include "analyzer/predict/loader_replay.h"

namespace gpuwatch::predict {

// Calls of next() that returned no batch: the last of an epoch, which ends the workers. Sorted.
std::vector<model::TimeSpan> last_nexts(const model::Process& process, uint32_t loader);

// The call that ended the epoch because there were no more data, null if it broke off before. `next_start`:
// of the epoch that follows, 0 if none does.
const model::TimeSpan* last_next_of(const model::LoaderEpoch& epoch, model::Ns next_start,
                                    const std::vector<model::TimeSpan>& last_nexts);

// The workers of an epoch make the next one's batches, too. Not those of persistent_workers=True where the
// script (Lightning: reload_dataloaders_every_n_epochs) makes the DataLoader anew for most epochs.
bool keeps_workers(const model::Process& process, uint32_t loader);

Restart measure_restart(const model::Process& process, uint32_t loader, const HandOver& hand_over);

// Of an epoch: the script's own work before it, within the step that its first batch belongs to, and after
// the last batch of the one `before` (null: none). nullopt: the epoch began before that step did.
std::optional<double> own_restart_ns(const attribute::RankAttribution& rank, const model::LoaderEpoch& epoch,
                                     const model::LoaderEpoch* before,
                                     const std::vector<model::TimeSpan>& last_nexts);

// Without workers, of an epoch's first batch: what drawing its indices took longer than `usual_ns`, which is
// a sampler that draws those of the whole epoch. 0 with workers, whose start holds it.
double first_draw_ns(const model::LoaderEpoch& epoch, double usual_ns);

model::Ns first_sent(const model::LoaderEpoch& epoch);  // 0: none
model::Ns first_next(const model::LoaderEpoch& epoch);  // 0: none

}  // namespace gpuwatch::predict
