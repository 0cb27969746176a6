// SPDX-License-Identifier: Apache-2.0
// Discrete-event model of a data loader with worker processes, fed with recorded service times: what would a
// step take with another number of workers or another prefetch factor?
//
// The protocol is PyTorch's: prefetch_factor x workers indices are handed out ahead, index i to worker
// i mod workers; batches are taken in order; each batch that is taken hands out one more index. Without
// workers the consumer fetches inline. CPU is shared: while workers and consumer ask for more cores than can
// be had, everything that computes slows down by the same factor, everything that sleeps or reads does not.
//
// Nanoseconds throughout; pure functions of their arguments (random numbers have a fixed seed).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/attribute/attribution.h"
#include "analyzer/model/run.h"
#include "analyzer/predict/prediction.h"

namespace gpuwatch::predict {

struct LoaderSetting {
  int workers = 0;
  int prefetch_factor = 2;
  bool in_order = true;
  bool persistent = false;  // workers live on from pass to pass
  bool pin = false;         // one thread pins each batch before the consumer gets it
  double io_factor = 1;     // blocked input of a batch, against the recorded: faster storage
  double cpu_factor = 1;    // computing of a batch, against the recorded: cheaper transforms
  double cores = 0;         // CPUs that can be had; 0: as recorded
  bool operator==(const LoaderSetting&) const = default;
};

// One recorded batch: what it costs to make and what the consumer does after it got it.
struct BatchCost {
  double service_ns = 0;  // fetch and collate without time spent runnable but not running
  double cpu_ns = 0;      // of service_ns, on a CPU
  double think_ns = 0;    // consumer: from this next()'s return to the following next()
  double receive_ns = 0;  // worker ends -> a waiting consumer has taken the batch off the queue
  bool counted = true;    // part of a recorded step (warm-up is not)
};

struct RecordedPass {
  std::vector<BatchCost> batches;
  double lead_ns = 0;  // from the first index handed out to the first next()
};

// Costs of the protocol, means over the trace where it shows them: their tails are part of a mean step.
struct HandOver {
  double dispatch_ns = 0;     // index put -> idle worker begins
  double turnaround_ns = 0;   // worker ends one batch -> begins the next that it already owes
  double finish_ns = 0;       // batch taken -> next() returns
  double receive_ns = 0;      // worker ends -> batch taken by a waiting consumer; each BatchCost has its own
  double ready_ns = 0;        // whole next() when the batch was there already
  double owner_busy_ns = 0;   // added while the worker that made the batch computes: it answers late
  double ready_worst_ns = 0;  // the same at most: what the interval of a prediction allows for
  bool measured = false;      // false: assumed, the run had no workers
};

struct LoaderRecording {
  std::vector<RecordedPass> passes;
  LoaderSetting setting;  // as it was recorded
  HandOver hand_over;
  double cores = 1;              // CPU that workers and consumer can really get together
  double think_cores = 0;        // CPUs that the process uses while the consumer works
  double think_cores_worst = 1;  // at most; only where think_cores is a guess
  double batches_per_step = 1;
  double measured_step_ms = 0;
  size_t steps = 0;
  bool think_cores_known = false;  // from the sampler; else a guess, said in the assumptions
  double used_cores = 0;           // CPU that the job used in the recorded steps, 0 if not sampled
  bool is_cpu_limited = false;     // workers and training wait for each other's CPU
};

struct LoaderReplay {
  double step_ms = 0;
  double wait_ms = 0;        // of it, in next()
  double think_ms = 0;       // of it, the consumer's own work
  double fetch_stretch = 1;  // wall / undisturbed service time, mean over batches
};

// nullopt: no pass of this rank has batches with known fetch times.
std::optional<LoaderRecording> record_loader(const model::Run& run, const attribute::RankAttribution& rank);

// Index of the loader that feeds the recorded steps, kNone if none does.
uint32_t main_loader(const model::Run& run, const attribute::RankAttribution& rank);

LoaderReplay replay(const LoaderRecording& recording, LoaderSetting setting);
ReplayCheck check(const LoaderRecording& recording);

// Expected step time with its spread over block-bootstrap resamples of the recorded batches.
Range replay_range(const LoaderRecording& recording, LoaderSetting setting);

// The step without any input wait, the floor of every prediction about the loader.
double step_without_input_ms(const LoaderRecording& recording);

std::vector<std::string> assumptions(const LoaderRecording& recording, LoaderSetting setting);

}  // namespace gpuwatch::predict
