// SPDX-License-Identifier: Apache-2.0
// How an IterableDataset divides its data among workers: each has some of the parts (files, shards), and once
// they are read its turns go to the others. With fewer parts than workers some make no batch at all; of three
// files two workers make a third and two thirds. Pure functions.
#pragma once

#include <vector>

#include "analyzer/model/run.h"
#include "analyzer/predict/loader_replay.h"

namespace gpuwatch::predict {

// As the recorded workers had them, in whole numbers of equal parts; empty where they took turns to the end,
// as over a map, or where that is not known. `recording` has the epochs that correspond to `epochs`.
std::vector<int> recorded_parts(const std::vector<const model::LoaderEpoch*>& epochs,
                                const LoaderReplayInput& recording);

// Of the workers that make batches, most first. As recorded with as many workers; another number of workers
// gets the same parts by turns. Empty: all take turns to the end.
std::vector<int> parts_of_workers(const LoaderReplayInput& recording, const LoaderSetting& setting);

// Those that make batches.
int serving_workers(const LoaderReplayInput& recording, const LoaderSetting& setting);

// Of all batches, made by the worker that makes most.
double largest_share(const LoaderReplayInput& recording, const LoaderSetting& setting);

}  // namespace gpuwatch::predict
