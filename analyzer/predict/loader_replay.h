// SPDX-License-Identifier: Apache-2.0
// Discrete-event model of a data loader with worker processes, fed with recorded service times: what would a
// step take with another number of workers or another prefetch factor?
//
// The protocol is PyTorch's: prefetch_factor x workers indices are handed out ahead, index i to worker
// i mod workers; batches are taken in order; each batch that is taken hands out one more index. A finished
// batch is a message: its worker sends it, the consumer (or the pin thread, which then copies it) takes one
// after the other off a queue. Without workers the consumer fetches inline. Whatever computes takes its turn
// in the run queue of a core (run_queues.h); what sleeps or reads is not slowed by others.
//
// Nanoseconds throughout; pure functions of their arguments (random numbers have a fixed seed).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analyzer/attribute/attribution.h"
#include "analyzer/model/run.h"
#include "analyzer/predict/prediction.h"
#include "analyzer/predict/run_queues.h"

namespace gpuwatch::predict {

struct LoaderSetting {
  int workers = 0;
  int prefetch_factor = 2;
  bool in_order = true;
  bool persistent = false;  // workers live on from epoch to epoch
  bool pin = false;         // one thread pins each batch before the consumer gets it
  double io_factor = 1;     // blocked input of a batch, against the recorded: faster storage
  double cpu_factor = 1;    // computing of a batch, against the recorded: cheaper transforms
  double draw_factor = 1;   // drawing the indices of a batch, against the recorded: another sampler
  double cores = 0;         // CPUs that can be had; 0: as recorded
  bool is_split = false;    // all workers make as many batches, whatever `parts` they had
  bool operator==(const LoaderSetting&) const = default;
};

// One recorded batch: what it costs to make and what the consumer does after it got it.
struct BatchCost {
  double service_ns = 0;  // fetch and collate without time spent runnable but not running
  double cpu_ns = 0;      // of service_ns, on a CPU
  double think_ns = 0;    // consumer: from this next()'s return to the following next()
  double send_ns = 0;     // worker ends -> message there, while the worker's interpreter is free
  bool counted = true;    // part of a recorded step (warm-up is not)
  double io_ns = 0;       // of service_ns, blocked in input; beside cpu_ns
  double pin_ns = 0;      // copy into pinned memory
  double collate_ns = 0;  // of service_ns, in collate_fn; overlaps cpu_ns and io_ns
  double bytes = 0;       // of its tensors, 0 unknown
  double slept_ns = 0;    // consumer: before think_ns, in next() and not computing
};

struct ReplayEpoch {
  std::vector<BatchCost> batches;
  double lead_ns = 0;       // from the first index handed out to the first next()
  double own_ns = 0;        // the script's own work between the epoch before and this one
  bool is_counted = false;  // its beginning is part of a recorded step
  bool is_first = false;    // of the loader: its workers start, whatever the setting
  bool is_whole = false;    // read to its end: the data of every epoch
};

// Costs of the protocol, means over the trace where it shows them: their tails are part of a mean step.
struct HandOver {
  double dispatch_ns = 0;    // index put -> idle worker begins
  double turnaround_ns = 0;  // worker ends one batch -> begins the next that it already owes
  double send_ns = 0;        // worker ends -> message there; each BatchCost has its own
  double take_ns = 0;        // a message that is there -> taken off the queue
  double finish_ns = 0;      // the wanted batch taken -> next() returns
  // The consumer draws the indices of a batch from the sampler within next(): with workers a part of
  // finish_ns, without them before the fetch. 0: too short to be told apart.
  double draw_ns = 0;
  // Sending and taking while the worker computes take so many times as long: its threads that hand the batch
  // over need the interpreter's lock. 1: no difference (what computes is C code that lets go of it).
  double busy_factor = 1;
  // What a batch costs more than one that was made inline: a worker writes it to new pages of shared memory,
  // and whoever uses it first reads it from there. 0: recorded with workers, in the batches themselves.
  double share_ns_per_byte = 0, first_use_ns_per_byte = 0;
  bool is_page_fault_known = false;  // these follow from what a page fault takes on the job's machine
  bool measured = false;             // false: assumed, the run had no workers
  bool is_split = true;  // false: no batch was there before the consumer: the sum of send and take is known
};

// What lies between two epochs. Times of one worker are its share: workers are started one after the other.
struct Restart {
  double start_ns = 0;       // iterator constructed up to the first index, per worker
  double come_up_ns = 0;     // first index put -> worker process, just started, begins
  double first_send_ns = 0;  // added to the first message of a new worker
  // Added to its first fetch: what is imported, opened or copied on first use, and of that the computing. 0:
  // no longer than others, or recorded with it.
  double first_fetch_ns = 0, first_fetch_cpu_ns = 0;
  double stop_ns = 0;   // last next() of an epoch that ends its workers, per worker
  double reset_ns = 0;  // first index of another epoch of living workers
  bool is_cold_seen = false, is_warm_seen = false;  // false: assumed
};

struct LoaderReplayInput {
  std::vector<ReplayEpoch> epochs;
  LoaderSetting setting;  // as it was recorded
  // How many equal parts of the data each worker had; empty: they took turns to the end (worker_parts.h).
  std::vector<int> parts;
  HandOver hand_over;
  Restart restart;
  Scheduling scheduling;
  double cores = 1;              // CPU that workers and consumer can really get together
  double cores_low = 0;          // at least, as far as the recording tells; 0: as `cores`
  double think_cores = 0;        // CPUs that the process uses while the consumer works
  double think_cores_worst = 1;  // at most; only where think_cores is a guess
  // CPU time a batch of threads that help the training thread, where it fetches itself: taken for training's,
  // which may be the fetch's as well, and what can only be the fetch's.
  double helpers_ns = 0, fetch_helpers_ns = 0;
  double most_fetch_help_ns = 0;  // what can be the fetch's at most (helper_threads.h)
  double company_loss = 0;  // computing takes so much longer beside other computing than it was recorded
  double batches_per_step = 1;
  double measured_step_ms = 0;
  size_t steps = 0;
  bool think_cores_known = false;  // from the sampler; else a guess, said in the assumptions
  double used_cores = 0;           // CPU that the job used in the recorded steps, 0 if not sampled
  // Of the consumer's work: waiting for a core that no other work of the job explains. On an idle machine the
  // core only has to wake up, which it need not where there is more to do.
  double think_delay_share = 0;
  double quick_think_ns = 0;      // of the consumer's work that spins beside workers: as long without them
  double late_helpers_share = 0;  // of the consumer's work that follows a long sleep (late_helpers.h)
  double idle_cores = 0;          // of the machine meanwhile, 0 if not known
  bool is_throttled = false;      // by a CPU quota
  bool is_cpu_limited = false;    // workers and training wait for each other's CPU
  double pin_ns = 0;              // mean copy into pinned memory, 0 if none was recorded
  double disk_share = 0;          // of the recorded time the disk was busy, 0 unknown
};

// What keeps a replayed step from being shorter.
enum class Limit { kTraining, kWorkers, kCpu, kPinThread, kHandOver };

struct LoaderReplay {
  double step_ms = 0;
  double wait_ms = 0;        // of it, in next()
  double think_ms = 0;       // of it, the consumer's own work
  double restart_ms = 0;     // of it, between epochs
  double fetch_stretch = 1;  // wall / undisturbed service time, mean over batches
  double cpu_share = 0;      // of the cores that can be had, in use
  double worker_share = 0;   // of the workers' time, at work
  double pin_share = 0;      // of the pin thread's time, at work
};

// nullopt: no epoch of this rank has batches with known fetch times.
std::optional<LoaderReplayInput> extract_loader(const model::Run& run,
                                                const attribute::RankAttribution& rank);

// Service, CPU, input and the consumer's work of the mean batch, warm-up included; zeros without batches.
BatchCost mean_batch(const LoaderReplayInput& recording);

// Index of the loader that feeds the recorded steps, of several the one that training waits for longest;
// kNone if none does.
uint32_t main_loader(const model::Run& run, const attribute::RankAttribution& rank);

LoaderReplay replay(const LoaderReplayInput& recording, LoaderSetting setting);
ReplayCheck check(const LoaderReplayInput& recording);

// Expected step time with its spread over other runs: block-bootstrap resamples of the recorded batches, or
// other orders of them where they are all of the data.
Estimate replay_estimate(const LoaderReplayInput& recording, LoaderSetting setting);

Limit limit(const LoaderReplayInput& recording, LoaderSetting setting);
// "because the training itself takes the rest of the step": why a further change of the loader gains nothing.
std::string limit_words(const LoaderReplayInput& recording, LoaderSetting setting);

// The step without any input wait, the floor of every prediction about the loader.
double step_without_input_ms(const LoaderReplayInput& recording);

std::vector<std::string> assumptions(const LoaderReplayInput& recording, LoaderSetting setting);

}  // namespace gpuwatch::predict
