// SPDX-License-Identifier: Apache-2.0
// Where the time of the loader that feeds the steps goes, summed over its recorded batches: the input of the
// rules about data loading. Nanoseconds and bytes; plain values.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/attribute/attribution.h"
#include "analyzer/model/run.h"

namespace gpuwatch::advise {

struct InputFacts {
  size_t batches = 0;  // whose fetch was recorded
  double fetch_ns = 0, cpu_ns = 0, run_delay_ns = 0, collate_ns = 0;
  // Worker-to-trainer transfer: from the end of a fetch until the waiting training thread has the batch. The
  // lowest decile, so that delays that a busy machine adds to some batches do not count.
  double transfer_ns = 0;
  uint32_t threads = 0;  // largest number of threads seen in a worker
  double major_faults = 0;

  // File input of the fetches, by calls of any length; io_ns is known without the counts, too.
  double io_ns = 0;
  bool is_counted = false;
  uint64_t bytes_read = 0, disk_bytes = 0, opens = 0, reads = 0;
  // Of the batches that were made of it, 0 if not known. After the first 64 of a worker the size of every
  // 17th is recorded: the others are taken to be like them.
  double tensor_bytes = 0, tensors = 0;

  // Time of the calls that were long enough to be recorded.
  double open_ns = 0, read_ns = 0, receive_ns = 0;
  double shared_wait_ns = 0;            // for sockets, other threads and processes: poll, locks
  double remote_ns = 0;                 // part of open_ns and read_ns on remote file systems
  const model::Mount* mount = nullptr;  // the mount that took the most time, null if not known
  double mount_ns = 0;

  // Each complete epoch over the loader, in order of time.
  struct Epoch {
    uint64_t bytes_read = 0, disk_bytes = 0;
    double io_ns = 0;
    size_t batches = 0;
  };
  std::vector<Epoch> epochs;

  // Batches whose collate_fn was given samples of known size: elements of the samples, of the padded batches,
  // and of batches that are padded only to their own longest sample.
  struct Shapes {
    size_t batches = 0;
    double samples = 0, elements = 0, padded = 0, to_longest = 0;
    // Sum of squared sample lengths, the cost of attention: lower bound without padding, and with padding.
    double squares_least = 0, squares_padded = 0;
    bool is_one_length = true;  // all batches were padded to the same sample length
  };
  Shapes shapes;

  // Of the machine during the fetches; 0 without machine samples.
  double disk_busy_share = 0, disk_bytes_s = 0;
  // CPU time in the same period: of all threads of the workers, and of those that fetch.
  double sampled_worker_cpu_ns = 0, sampled_fetch_cpu_ns = 0;
  double sampled_batches = 0;
  uint64_t memory_available_bytes = 0;  // the lowest sample

  // CPU time of the workers for a batch outside its fetch, which is mostly serialization; 0 if not sampled.
  double transfer_cpu_ns() const {
    const double other = sampled_worker_cpu_ns - sampled_fetch_cpu_ns;
    return sampled_batches > 0 && other > 0 ? other / sampled_batches : 0;
  }
  double io_share() const { return fetch_ns > 0 ? io_ns / fetch_ns : 0; }
  double per_batch(double sum) const { return batches ? sum / double(batches) : 0; }
  // Bytes a second while a fetch reads; 0 if not counted.
  double bytes_s() const { return is_counted && io_ns > 0 ? double(bytes_read) / io_ns * 1e9 : 0; }
};

InputFacts input_facts(const model::Run& run, const attribute::RankAttribution& rank);

}  // namespace gpuwatch::advise
