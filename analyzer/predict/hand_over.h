// SPDX-License-Identifier: Apache-2.0
// What the loader protocol itself costs, measured on a recorded run: from the worker's last instruction on a
// batch to the consumer's next() that returns it. Nanoseconds; pure functions.
//
// A batch counts as waited for where the consumer blocked inside next(), not where the fetch ended late: a
// worker whose Python code computes keeps the lock that its feeder thread and its file descriptor server
// need, and a batch that was finished 12 ms before next() was seen to arrive 15 ms after.
#pragma once

#include <vector>

#include "analyzer/model/run.h"
#include "analyzer/predict/loader_replay.h"

namespace gpuwatch::predict {

struct Mean {
  double sum = 0, count = 0;
  void add(double value) {
    sum += value;
    ++count;
  }
  double value(double otherwise) const { return count > 0 ? sum / count : otherwise; }
};

inline bool was_fetched(const model::Batch& batch) {
  return batch.fetch.end > batch.fetch.begin;
}
inline bool was_taken(const model::Batch& batch) {
  return batch.next.end > batch.next.begin;
}

// For each batch of the pass: how long the consumer slept in its next() for a message of any worker.
std::vector<double> blocked_in_next(const model::Process& process, const model::LoaderPass& pass);
bool consumer_waited(double blocked_ns);
double receive_ns(const model::Batch& batch);

HandOver measure_hand_over(const std::vector<const model::LoaderPass*>& passes,
                           const std::vector<std::vector<double>>& blocked_ns, int workers);

}  // namespace gpuwatch::predict
