// SPDX-License-Identifier: Apache-2.0
// The recorder gives an iterator an entry of its own while another one over the same DataLoader is alive and
// in the middle of a pass, because it cannot know whether that one will be asked again. Lightning never asks:
// it counts the batches, and leaves each epoch's iterator before its end. Entries whose passes follow each
// other are one loader; passes that alternate (zip(loader, loader)) stay apart.
#pragma once

#include <vector>

#include "analyzer/model/run.h"
#include "analyzer/model/tables.h"

namespace gpuwatch::model {

// Before passes are built. `tables`: by index of the process.
void join_instances(Run& run, const std::vector<ProcessTables*>& tables);

}  // namespace gpuwatch::model
