// SPDX-License-Identifier: Apache-2.0
// Which process is whose child or data worker, which thread trains, and how each process ended.
#pragma once

#include <vector>

#include "analyzer/model/run.h"
#include "analyzer/model/tables.h"

namespace gpuwatch::model {

// Process::parent of processes that were exec'd; forked ones know theirs. Needs Process::start.
void link_parents(Run& run);

// Adds the workers that no WorkerInfo names to the tables of their consumers (`tables`: by index of the
// process), from the WorkerStart records that they left themselves.
void complete_worker_links(const Run& run, const std::vector<ProcessTables*>& tables);

// Process::training_thread of every process that is nobody's worker.
void find_training_threads(Run& run);

// A rank that started other ranks, as Lightning's first one does: their CPU time is their own, and what its
// other children used is not known (MachineSample::other_children_cpu_ns is 0). Needs Process::parent.
void separate_ranks(Run& run);

// Other threads iterate the loaders and hand the batches on; the training thread calls no next() itself.
bool is_fed_by_other_threads(const Process& process);

// Process::is_running, for processes of this machine that left no end. Reads /proc.
void find_running(Run& run);

}  // namespace gpuwatch::model
