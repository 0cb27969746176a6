// SPDX-License-Identifier: Apache-2.0
// Rebuilds, batch by batch, what a loader and its workers did: which worker was asked for the batch and when,
// when it fetched it and what that cost, when the consumer got it and how long its next() took. Follows
// PyTorch's protocol: indices are queued per worker, and a worker serves its queue in order.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "analyzer/model/run.h"
#include "analyzer/model/tables.h"

namespace gpuwatch::model {

class LoaderEpochs {
 public:
  explicit LoaderEpochs(Run& run);  // all records are decoded and mapped

  // Fills Process::epochs and Loader::thread of that process, and `worker_of` of its workers. `links` are the
  // WorkerInfo tables of its loaders, in the order they were written.
  void build(uint32_t consumer, std::span<const WorkerLink> links);

 private:
  // A process that may have served as one worker of one loader.
  struct Candidate {
    uint32_t pid = 0;
    uint32_t process = kNone;
    Ns start = 0;  // of the process
  };
  struct OfWorker {
    std::vector<Candidate> all;
    bool has_traceless = false;
  };
  using Candidates = std::unordered_map<uint64_t, OfWorker>;  // by loader and worker

  uint32_t process_of(uint32_t pid, const Process& consumer) const;
  Candidates candidates_of(const Process& consumer, std::span<const WorkerLink> links) const;
  void assign_workers(Process& consumer, const Candidates& candidates);
  Worker choose(const OfWorker* candidates, uint32_t worker, size_t nth_epoch, Ns until);
  void match_fetches(Process& consumer);

  Run& run_;
  std::unordered_multimap<uint32_t, uint32_t> by_pid_;
  // When a worker process entered its loop: a persistent worker of which that record is missing would be
  // searched whole for each epoch.
  std::unordered_map<uint32_t, Ns> loop_starts_;
};

}  // namespace gpuwatch::model
