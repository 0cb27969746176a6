// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/unseen_workers.h"

#include <algorithm>
#include <cmath>

#include "analyzer/model/facts.h"
#include "analyzer/model/quantile.h"
#include "analyzer/predict/hand_over.h"

namespace gpuwatch::predict {
namespace {

using model::Batch;
using model::LoaderEpoch;
using model::Process;

// A batch of one tensor: 0.7 ms was the one constant that fitted 14 PyTorch loader configurations (workers 1
// to 4, prefetch 1 to 4) on a desktop-class machine. Each tensor has a file descriptor of its own that is
// handed over: 1, 2, 5 and 10 tensors took 0.94, 1.34, 1.62 and 2.37 ms of CPU time on both sides, of which a
// tensor is a ninth of the time of a batch of one. A page fault took 1.7 us there; on a virtual machine where
// it took 4.4, taking a batch of one to three tensors was 1.7 to 2.5 ms: both are the kernel's work.
constexpr double kTransferNs = 0.6e6;
constexpr double kTensorNs = 0.1e6;
constexpr double kPageFaultThereNs = 1700, kLeastTransfer = 0.7, kMostTransfer = 3;
constexpr double kTransferSpread = 2;  // either way, from machine to machine

// Each page of a batch is a page fault more in a worker than in the training thread, which gets the memory of
// the last batch again. A fault took 1.7 and 4.4 us on two virtual machines, batches of 0.4 to 5 MB 1.4 times
// as much, with what opening and mapping a file takes. Transforms have such faults, too: between two batches
// hardly a block lives in a worker, and malloc gives the end of its heap back each time (page-faults), where
// inline the training's own blocks keep it. Together that was 1.8 to 2.7 faults for each page in four jobs;
// 6 to 10 where float arrays are resized, normalized or filtered, and 17 where a crop is left of a large
// picture. Inline there were 0.2 to 0.8.
constexpr double kPageBytes = 4096;
constexpr double kShareOfPage = 3, kLeastShareOfPage = 1.3, kMostShareOfPage = 12;
// Whoever uses the batch first maps its pages, and frees them: 0.05 to 0.35 ms for each MB where a fault took
// 1.7 us, 0.5 where it took 4.4.
constexpr double kFirstUseOfPage = 0.4, kLeastFirstUseOfPage = 0.1, kMostFirstUseOfPage = 0.8;
// Where the recording does not tell: 0.2 us without a virtual machine, up to 4.4 in one.
constexpr double kPageFaultNs = 1000, kLeastPageFaultNs = 200, kMostPageFaultNs = 4400;
constexpr double kNoPageFaultNs = 1e6;  // a damaged recording says more

// glibc's malloc returns a larger block to the system at once (DEFAULT_MMAP_THRESHOLD_MAX): then new pages
// are part of the inline fetch, too. 40 MB took 19 ms inline and 22.5 in a worker.
constexpr double kAlwaysNewBytes = 32 << 20;
constexpr double kShareOfAlwaysNew = 0.25;

// Whether the transforms are Python code, which keeps the interpreter's lock, cannot be seen inline.
constexpr double kKeepsLock = 1000;

// Four forked workers took 40 to 55 ms from the construction to the first batch on a desktop-class machine,
// of a process as small as one that only imported PyTorch.
constexpr double kStartNs = 5e6, kComeUpNs = 25e6, kFirstSendNs = 5e6, kStopNs = 5e6, kResetNs = 5e6;
// A fork copies the page tables of memory that is the process's own, and an exit gives them back: with 1 GB
// more, one took 15 and the other 25 ms more.
constexpr double kPlainProcessBytes = 0.35e9;
constexpr double kForkNsPerByte = 15e6 / 1e9, kExitNsPerByte = 25e6 / 1e9;
// A worker that is no fork starts Python and imports PyTorch and the script: 1.6 s for a script that imports
// nothing else. Its end takes 0.03 to 0.7 s.
constexpr double kImportNs = 2e9, kStopSpawnedNs = 0.2e9;
constexpr double kStartSpread = 2;  // either way

// Computing beside other computing: fetches took 2 to 6 % more CPU time in workers than inline, training 6 to
// 10 %, where a batch was small; copies of memory 13 to 18 % beside each other. What decides, how much of the
// work is bound by memory and whether two CPUs are one core's hardware threads, is not known.
constexpr double kCompanyLoss = 0.03, kMostCompanyLoss = 0.15;

// Scheduling::spinning_power of training on all cores, once it has workers beside it: where it was seen it
// lay between 2 and 4.5. Of 14 CPU jobs, recorded without workers and run with one to eight, a power of 2
// promised 13% too much in the median, 3 4% too much, 4.5 6% too little.
constexpr double kSpinningPower = 3, kLeastSpinningPower = 2, kMostSpinningPower = 4.5;

// Training on a GPU sleeps and wakes within a step: autograd's thread takes over and gives back. Beside
// workers that compute on every core, whoever wakes may wait for the end of a worker's time slice: two of
// them on two cores made the 17 ms of training 22 to 27.
constexpr double kLateWakingsNs = 2 * 3e6;
constexpr double kCoresAreFull = 0.75;

double mean_of_batches(const std::vector<const LoaderEpoch*>& epochs, double (*value)(const Batch&),
                       double otherwise) {
  Mean mean;
  for (const LoaderEpoch* epoch : epochs)
    for (const Batch& batch : epoch->batches)
      if (batch.tensors > 0) mean.add(value(batch));
  return mean.value(otherwise);
}

double rss_bytes(const Process& process) {
  double most = 0;
  for (const model::MachineSample& sample : process.machine_samples)
    most = std::max(most, double(sample.rss_bytes));
  return most;
}

// Of the first fetch of the run, the computing beyond that of all others: what is imported, compiled or
// opened on first use. A forked worker does it again, because its parent has not. 0 where it is not the
// longest: then batches differ by as much.
double first_fetch_ns(const Process& process, uint32_t loader) {
  double first = 0, longest = 0;
  std::vector<double> others;
  bool is_first = true;
  for (const LoaderEpoch& epoch : process.epochs) {
    if (epoch.loader != loader) continue;
    for (const Batch& batch : epoch.batches) {
      if (!was_fetched(batch)) continue;
      const double cpu = double(batch.fetch_cpu_ns);
      if (std::exchange(is_first, false)) {
        if (batch.index > 0) return 0;  // the beginning was not recorded
        first = cpu;
        continue;
      }
      longest = std::max(longest, cpu);
      others.push_back(cpu);
    }
  }
  return others.empty() || first <= longest ? 0 : first - model::median(std::move(others));
}

void set_starts(Restart& restart, double factor) {
  for (double* cost : {&restart.start_ns, &restart.come_up_ns, &restart.first_send_ns, &restart.stop_ns})
    *cost *= factor;
}

void set_transport(HandOver& hand_over, double take_factor, double share, double first_use) {
  hand_over.take_ns *= take_factor;
  hand_over.share_ns_per_byte *= share / kShareOfPage;
  hand_over.first_use_ns_per_byte *= first_use / kFirstUseOfPage;
}

void set_page_fault(HandOver& hand_over, double page_fault_ns) {
  hand_over.share_ns_per_byte *= page_fault_ns / kPageFaultNs;
  hand_over.first_use_ns_per_byte *= page_fault_ns / kPageFaultNs;
}

// If it was the fetch that the helpers of the training thread helped, it takes as much longer in a worker.
void give_helpers_to_fetches(LoaderReplayInput& recording) {
  const double most_ns = std::max(0.0, recording.most_fetch_help_ns - recording.fetch_helpers_ns);
  const double given_ns = std::min(recording.helpers_ns, most_ns);
  recording.fetch_helpers_ns += given_ns;
  if (recording.think_cores > 1)
    recording.think_cores -= (recording.think_cores - 1) * given_ns / recording.helpers_ns;
}

// All of its help was waiting for work, spinning: OpenMP's threads do between two parallel regions.
void take_no_help(LoaderReplayInput& recording) {
  recording.fetch_helpers_ns = 0;
}

bool wakes_late(const LoaderReplayInput& recording, const LoaderSetting& setting) {
  return recording.think_cores <= 1 && setting.workers >= std::round(recording.cores) &&
         replay(recording, setting).cpu_share > kCoresAreFull;
}

void wake_late(LoaderReplayInput& recording) {
  for (ReplayEpoch& epoch : recording.epochs)
    for (BatchCost& batch : epoch.batches) batch.think_ns += kLateWakingsNs / recording.batches_per_step;
}

// From the begin of next() to that of the fetch: usually a list's next 64 entries.
double draw_ns(const std::vector<const LoaderEpoch*>& epochs) {
  constexpr double kLeast = 0.2e6;
  std::vector<double> before;
  for (const LoaderEpoch* epoch : epochs)
    for (const Batch& batch : epoch->batches)
      if (was_fetched(batch) && was_taken(batch) && batch.fetch.begin > batch.next.begin)
        before.push_back(double(batch.fetch.begin - batch.next.begin));
  if (before.empty()) return 0;
  const double usual = model::quantile(std::move(before), 4);
  return usual > kLeast ? usual : 0;
}

}  // namespace

HandOver assume_hand_over(const Process& process, const std::vector<const LoaderEpoch*>& epochs) {
  const double tensors = mean_of_batches(
      epochs, [](const Batch& b) { return double(b.tensors); }, 1);
  const double bytes = mean_of_batches(
      epochs, [](const Batch& b) { return double(b.bytes); }, 0);
  const double recorded_ns = std::min(model::number_fact(process, "shared_page_ns"), kNoPageFaultNs);
  const double page_ns_per_byte = (recorded_ns > 0 ? recorded_ns : kPageFaultNs) / kPageBytes;
  HandOver result;
  result.take_ns = kTransferNs + kTensorNs * tensors;
  if (recorded_ns > 0)
    result.take_ns *= std::clamp(recorded_ns / kPageFaultThereNs, kLeastTransfer, kMostTransfer);
  result.share_ns_per_byte =
      kShareOfPage * page_ns_per_byte * (bytes > kAlwaysNewBytes ? kShareOfAlwaysNew : 1);
  result.first_use_ns_per_byte = kFirstUseOfPage * page_ns_per_byte;
  result.is_page_fault_known = recorded_ns > 0;
  result.finish_ns = result.draw_ns = draw_ns(epochs);
  return result;
}

Restart assume_restart(const Process& process, uint32_t loader) {
  Restart result{.start_ns = kStartNs,
                 .come_up_ns = kComeUpNs,
                 .first_send_ns = kFirstSendNs,
                 .stop_ns = kStopNs,
                 .reset_ns = kResetNs};
  const std::string& method = process.loaders[loader].start_method;
  result.first_fetch_ns = result.first_fetch_cpu_ns = first_fetch_ns(process, loader);
  if (method == "spawn" || method == "forkserver") {
    result.come_up_ns = kImportNs;
    result.stop_ns = kStopSpawnedNs;
    return result;
  }
  const double own_bytes = std::max(0.0, rss_bytes(process) - kPlainProcessBytes);
  result.start_ns += kForkNsPerByte * own_bytes;
  result.stop_ns += kExitNsPerByte * own_bytes;
  return result;
}

double assumed_company_loss() {
  return kCompanyLoss;
}

double assumed_spinning_power() {
  return kSpinningPower;
}

Estimate unseen_range(const LoaderReplayInput& recording, const LoaderSetting& setting, double expected_ms) {
  double below = 0, above = 0;
  const auto ask = [&](auto change) {
    LoaderReplayInput other = recording;
    change(other);
    const double off = replay(other, setting).step_ms - expected_ms;
    (off < 0 ? below : above) += off * off;
  };
  ask([](LoaderReplayInput& other) {
    set_transport(other.hand_over, kTransferSpread, kMostShareOfPage, kMostFirstUseOfPage);
  });
  ask([](LoaderReplayInput& other) {
    set_transport(other.hand_over, 1 / kTransferSpread, kLeastShareOfPage, kLeastFirstUseOfPage);
  });
  if (!recording.hand_over.is_page_fault_known) {
    ask([](LoaderReplayInput& other) { set_page_fault(other.hand_over, kMostPageFaultNs); });
    ask([](LoaderReplayInput& other) { set_page_fault(other.hand_over, kLeastPageFaultNs); });
  }
  if (recording.think_cores > 1) {
    ask([](LoaderReplayInput& other) { other.scheduling.spinning_power = kMostSpinningPower; });
    ask([](LoaderReplayInput& other) { other.scheduling.spinning_power = kLeastSpinningPower; });
  }
  ask([](LoaderReplayInput& other) { other.hand_over.busy_factor = kKeepsLock; });
  ask([](LoaderReplayInput& other) { other.company_loss = kMostCompanyLoss; });
  ask([](LoaderReplayInput& other) { other.company_loss = 0; });
  if (wakes_late(recording, setting)) ask(wake_late);
  if (recording.helpers_ns > 0) ask(give_helpers_to_fetches);
  if (recording.fetch_helpers_ns > 0) ask(take_no_help);
  if (recording.epochs.size() > 1) {
    ask([](LoaderReplayInput& other) { set_starts(other.restart, kStartSpread); });
    ask([](LoaderReplayInput& other) { set_starts(other.restart, 1 / kStartSpread); });
    if (recording.restart.first_fetch_ns > 0)
      ask([](LoaderReplayInput& other) {
        other.restart.first_fetch_ns = other.restart.first_fetch_cpu_ns = 0;
      });
  }
  return {expected_ms - std::sqrt(below), expected_ms, expected_ms + std::sqrt(above)};
}

}  // namespace gpuwatch::predict
