// SPDX-License-Identifier: Apache-2.0
// The recorder gives an iterator an entry of its own while another one over the same DataLoader is alive and
// in the middle of an epoch, because it cannot know whether that one will be asked again. Lightning never
// asks: it counts the batches, and leaves each epoch's iterator before its end. Entries whose epochs follow
// each other are one loader; epochs that alternate (zip(loader, loader)) stay apart. So are DataLoaders that
// the script makes anew at the same line, one after the other, and trains with.
#pragma once

#include <vector>

#include "analyzer/model/run.h"
#include "analyzer/model/tables.h"

namespace gpuwatch::model {

// Before epochs are built. `tables`: by index of the process.
void join_instances(Run& run, const std::vector<ProcessTables*>& tables);

// For each loader of the process the one that the user knows it as: itself, or, for an iterator that lives
// beside another one, the first over the same loader.
std::vector<uint32_t> first_instances(const Process& process);

}  // namespace gpuwatch::model
