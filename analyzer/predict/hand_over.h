// SPDX-License-Identifier: Apache-2.0
// What the loader protocol itself costs, measured on a recorded run: from the worker's last instruction on a
// batch to the consumer's next() that returns it. Nanoseconds; pure functions.
//
// A worker whose Python code computes keeps the lock that its feeder thread and its file descriptor server
// need: each of the dozen turns that handing a batch over takes waits for the switch interval (5 ms), or for
// the next pause between two batches. A batch that was finished 12 ms before next() was seen to arrive 15 ms
// after. So the costs are measured on an idle worker, and how much longer they take beside a working one from
// all the time that messages waited beside one.
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
  void add(const Mean& other) {
    sum += other.sum;
    count += other.count;
  }
  double value(double otherwise) const { return count > 0 ? sum / count : otherwise; }
};

inline bool was_fetched(const model::Batch& batch) {
  return batch.fetch.end > batch.fetch.begin;
}
inline bool was_taken(const model::Batch& batch) {
  return batch.next.end > batch.next.begin;
}

// Of a fetch, without the time that it was runnable but not running.
double service_ns(const model::Batch& batch);

// One batch on its way from a worker to the consumer or its pin thread.
struct Receipt {
  uint32_t batch = 0;            // index into LoaderEpoch::batches
  bool is_first = false;         // of its worker in this epoch: a new worker sets up its connections
  bool is_late = false;          // the message was there before the receiver came for it
  double early_ns = 0;           // is_late: so long after the worker was done
  model::Ns begin = 0, end = 0;  // from when both message and receiver were ready
  double beside_ns = 0;          // of it, the worker at work on another batch
  bool is_in_pause = false;      // done when the worker paused, not while it worked
  double since_pause_ns = 0;     // is_in_pause: since then
};
std::vector<Receipt> receipts(const model::LoaderEpoch& epoch);

// is_crowded: more processes computed than there were cores, so that all costs were seen with waits for a
// core.
HandOver measure_hand_over(const std::vector<const model::LoaderEpoch*>& epochs, bool is_crowded);

}  // namespace gpuwatch::predict
