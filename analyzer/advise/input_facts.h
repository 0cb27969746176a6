// SPDX-License-Identifier: Apache-2.0
// What making the batches of the loader that feeds the steps consisted of, summed over all of its recorded
// batches: what the rules about the input pipeline look at. Nanoseconds and bytes; plain values.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/attribute/attribution.h"
#include "analyzer/model/run.h"

namespace gpuwatch::advise {

struct InputFacts {
  size_t batches = 0;  // with a known fetch
  double fetch_ns = 0, cpu_ns = 0, run_delay_ns = 0, collate_ns = 0;
  // From the end of a fetch until the waiting consumer has the batch: nine of ten batches take longer. What a
  // busy machine adds to some of them is not in it.
  double hand_over_ns = 0;
  uint32_t threads = 0;  // most threads that a worker was seen to have

  // Input of the fetches, by calls of any length; io_ns is known without the counts, too.
  double io_ns = 0;
  bool is_counted = false;
  uint64_t bytes_read = 0, disk_bytes = 0, opens = 0, reads = 0;

  // Of the calls that were long enough to be recorded.
  double open_ns = 0, read_ns = 0, receive_ns = 0;
  double remote_ns = 0;                 // of open_ns and read_ns, on file systems of other machines
  const model::Mount* mount = nullptr;  // the one that took most time, null if not known
  double mount_ns = 0;

  // Each whole epoch over the loader, in order of time.
  struct Epoch {
    uint64_t bytes_read = 0, disk_bytes = 0;
    double io_ns = 0;
    size_t batches = 0;
  };
  std::vector<Epoch> epochs;

  // Of the batches whose collate_fn was given samples of known size: elements of the samples, of the batches,
  // and what they would be if each were as long as its batch's longest sample.
  struct Shapes {
    size_t batches = 0;
    double samples = 0, elements = 0, padded = 0, to_longest = 0;
    double squares_least = 0,
           squares_padded = 0;  // a sample's elements squared, summed: what attention costs
    bool is_one_length = true;  // all batches' samples were padded to the same length
  };
  Shapes shapes;

  // Of the machine, while it fetched; 0 where the sampler told nothing.
  double disk_busy_share = 0, disk_bytes_s = 0;
  // CPU time of the same while: of all threads of the workers, and of those that fetch.
  double sampled_worker_cpu_ns = 0, sampled_fetch_cpu_ns = 0;
  double sampled_batches = 0;
  uint64_t memory_available_bytes = 0;  // at least

  // CPU time that the workers spend on a batch beside making it; 0 where that was not sampled.
  double hand_over_cpu_ns() const {
    const double beside = sampled_worker_cpu_ns - sampled_fetch_cpu_ns;
    return sampled_batches > 0 && beside > 0 ? beside / sampled_batches : 0;
  }
  double io_share() const { return fetch_ns > 0 ? io_ns / fetch_ns : 0; }
  double per_batch(double sum) const { return batches ? sum / double(batches) : 0; }
  // Bytes a second while a fetch reads; 0 if not counted.
  double bytes_s() const { return is_counted && io_ns > 0 ? double(bytes_read) / io_ns * 1e9 : 0; }
};

InputFacts input_facts(const model::Run& run, const attribute::RankAttribution& rank);

}  // namespace gpuwatch::advise
