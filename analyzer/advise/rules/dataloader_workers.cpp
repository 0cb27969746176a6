// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/input_facts.h"
#include "analyzer/advise/loader_words.h"
#include "analyzer/advise/location.h"
#include "analyzer/advise/machine.h"
#include "analyzer/advise/pipeline_advice.h"
#include "analyzer/advise/queue_of_threads.h"
#include "analyzer/advise/read_scaling.h"
#include "analyzer/advise/worker_bound.h"
#include "analyzer/predict/worker_parts.h"

namespace gpuwatch::advise {

extern const Rule kDataloaderWorkers;

namespace {

using attribute::Category;
using attribute::Group;

constexpr double kLeastInputShare = 0.05;

constexpr Threshold kThresholds[] = {
    {"data stall", kLeastInputShare, "of the step",
     "below it XProf does not call a job input-bound, and the model error is as large"},
    kLeastGain,
    {"step time, against that of the best worker count", kWithinBestCount, "times",
     "workers take memory and start-up time, so the smallest count within 1% of the best is proposed"},
    {"time that workers are busy", kBusyWorkers, "of the step",
     "above it there is one more, if that leaves them slack: it makes up for slow batches"},
    {"workers", kMostWorkers, "workers",
     "with more of them, contention on the result queue, which the replay does not model, matters"},
};

void add_cause_evidence(Finding& finding, const RuleInput& input) {
  for (Category category :
       {Category::InputTransform, Category::InputWait, Category::InputIo, Category::InputCollate,
        Category::InputCpuStarved, Category::InputTransfer, Category::InputUnknown})
    if (input.rank.share(category) >= 0.01) finding.evidence.push_back(share_evidence(input, category));
}

bool settle(Finding& finding, const RuleInput& input, const predict::LoaderReplayInput& loader,
            const predict::ReplayCheck& check, predict::LoaderSetting setting) {
  const predict::LoaderSetting before = setting_before(input, loader);
  const double now = expected_step_ms(input, loader, before);
  const double after = Reads(input, loader).step_ms(setting);
  if (now < after * kLeastSpeedup) return false;
  finding.prediction = loader_prediction(input, loader, check, setting);
  const int most = worker_bound(input, loader, setting).most;
  // Not by the replay, which may be too slow: 12 workers that wait for reads gained 5.5x where it said 5.1x.
  finding.ceiling_speedup =
      loader_ceiling(input, loader, input.rank.share(Group::Input), std::max(most, setting.workers));
  return true;
}

std::string workers_title(const RuleInput& input, int workers, double lost) {
  if (workers > 0)
    return fmt::format("Data loading: {} worker{} cannot keep up, {}", workers, workers == 1 ? "" : "s",
                       stall_words(input, lost));
  if (input.rank.device == model::kNone)
    return fmt::format(
        "Data loading: no workers, the training thread spends {:.0f}% of each step preparing batches",
        100 * lost);
  return fmt::format("Data loading: no workers, {} while the training thread prepares batches",
                     stall_words(input, lost));
}

void add_evidence(Finding& finding, const RuleInput& input, double lost) {
  finding.evidence.push_back({"data stall", 100 * lost, "% of the step"});
  if (input.facts && input.facts->batches > 0)
    finding.evidence.push_back(
        {"time to make a batch", input.facts->per_batch(input.facts->fetch_ns) / 1e6, "ms"});
  finding.evidence.push_back({"step time without data stalls", input.input_floor_ms(), "ms"});
  add_cause_evidence(finding, input);
  finding.evidence.push_back({"CPU available to this job", double(input.process.cpu_count), "cores"});
}

// What ended the search for a larger count, if it was not that more gains nothing.
void add_bound(Finding& finding, const RuleInput& input, const predict::LoaderReplayInput& loader,
               const predict::LoaderSetting& setting) {
  const double cores = cores_of_rank(input), shm = number_fact(input.process, "shm_bytes");
  finding.evidence.push_back({"a worker computes", 100 * cpu_share(input, loader), "% of its time"});
  if (input.ranks_on_host > 1)
    finding.evidence.push_back(
        {fmt::format("CPU of each of {} ranks on this machine", input.ranks_on_host), cores, "cores"});
  if (setting.workers < worker_bound(input, loader, setting).most) return;
  if (shm > 0) finding.evidence.push_back({"size of /dev/shm", shm / (1 << 20), "MiB"});
}

// Memory of workers is not recorded: one may become as large as the process that started it.
void warn_of_memory(Finding& finding, const RuleInput& input, int more_workers) {
  const auto use = machine_use(input);
  double largest = 0;
  for (const model::MachineSample& sample : input.process.machine_samples)
    largest = std::max(largest, double(sample.rss_bytes));
  const double wanted = largest * more_workers * input.ranks_on_host;
  if (!use || use->least_memory_available_bytes <= 0 || wanted <= use->least_memory_available_bytes) return;
  constexpr double kGib = 1 << 30;
  finding.evidence.push_back({"memory available", use->least_memory_available_bytes / kGib, "GiB"});
  finding.evidence.push_back({"memory of the workers to add, at most", wanted / kGib, "GiB"});
}

// Where the recording does not tell whether storage serves so many readers: what to try first.
void name_condition(Finding& finding, const RuleInput& input, const predict::LoaderReplayInput& loader,
                    const predict::LoaderSetting& setting) {
  const auto reads = Reads(input, loader).outlook(setting);
  if (finding.prediction || !reads || !reads->is_open()) return;
  const int readers = std::max(loader.setting.workers, 1), first = std::max(2 * readers, 2);
  finding.fix.summary +=
      fmt::format(" if the storage serves {} readers as fast as {}", setting.workers, readers);
  if (first < setting.workers)
    finding.fix.summary +=
        fmt::format(" (try {} first)",
                    setting_words({LoaderOption::kNumWorkers, first}, input.configured_loader()).setting);
}

// With the workers that there are: then they are not too few (dataloader-prefetch).
bool is_as_fast_with_longer_buffer(const RuleInput& input, predict::LoaderSetting before, double after_ms) {
  constexpr int kMostAhead = 16;  // as in dataloader-prefetch
  if (before.workers < 1) return false;
  before.prefetch_factor = most_prefetched(input, before, kMostAhead);
  return expected_step_ms(input, *input.loader, before) <= after_ms * kWithinBestCount;
}

std::string parts_title(const predict::LoaderReplayInput& loader, const predict::LoaderSetting& setting) {
  const int all = setting.workers, serving = predict::serving_workers(loader, setting);
  if (serving < all)
    return fmt::format("{} of {} workers make{} all batches", serving, all, serving == 1 ? "s" : "");
  return fmt::format("one of {} workers makes {:.0f}% of the batches", all,
                     100 * predict::largest_share(loader, setting));
}

// Some workers make more batches than others, or all of them, because the dataset has no equal part for each.
// Another number of workers may fit its parts as well, and is easier to change.
std::optional<Finding> unsplit_dataset(const RuleInput& input, double lost) {
  const predict::LoaderReplayInput& loader = *input.loader;
  predict::LoaderSetting setting = setting_before(input, loader), other = setting;
  if (predict::parts_of_workers(loader, setting).empty()) return std::nullopt;
  const std::string parts = parts_title(loader, setting);
  setting.is_split = true;
  other.workers = best_workers(input, loader, other);
  if (expected_step_ms(input, loader, other) <= expected_step_ms(input, loader, setting) * kWithinBestCount)
    return std::nullopt;
  const int all = setting.workers;
  Finding finding = make_finding(kDataloaderWorkers, input, lost);
  finding.title = fmt::format("Data loading: {}, {}", parts, stall_words(input, lost));
  add_evidence(finding, input, lost);
  finding.fix.change = SplitChange{};
  finding.fix.summary = fmt::format(
      "Give each of the {0} workers an equal part of the dataset (get_worker_info() in __iter__; a multiple "
      "of {0} files of one size, if a part is a file)",
      all);
  if (const model::Loader* configured = input.configured_loader())
    finding.fix.location = configured->location;
  if (!settle(finding, input, loader, input.loader_check, setting)) return std::nullopt;
  return finding;
}

std::optional<Finding> framework_loader(const RuleInput& input, double lost) {
  if (auto finding = unsplit_dataset(input, lost)) return finding;
  const predict::LoaderReplayInput& loader = *input.loader;
  predict::LoaderSetting setting = setting_before(input, loader);
  const int before = setting.workers;
  setting.workers = best_workers(input, loader, setting);
  if (setting.workers <= before) return std::nullopt;
  const double after_ms = Reads(input, loader).step_ms(setting);
  if (is_as_fast_with_longer_buffer(input, setting_before(input, loader), after_ms)) return std::nullopt;

  Finding finding = make_finding(kDataloaderWorkers, input, lost);
  finding.title = workers_title(input, loader.setting.workers, lost);
  add_evidence(finding, input, lost);
  add_bound(finding, input, loader, setting);
  warn_of_memory(finding, input, setting.workers - before);
  propose(finding, input, {LoaderOption::kNumWorkers, setting.workers});
  if (!settle(finding, input, loader, input.loader_check, setting)) return std::nullopt;
  name_condition(finding, input, loader, setting);
  return finding;
}

std::optional<Finding> program_threads(const RuleInput& input, double lost) {
  const predict::ProducerReplayInput& producers = *input.producers;
  predict::LoaderSetting setting = producers.loader.setting;
  const int now = setting.workers;
  setting.workers = threads_wanted(input);
  if (setting.workers <= now) return std::nullopt;

  Finding finding = make_finding(kDataloaderWorkers, input, lost);
  finding.title = fmt::format("Data loading: {} loader thread{} cannot keep up, {}", now, now == 1 ? "" : "s",
                              stall_words(input, lost));
  finding.evidence = {{"data stall", 100 * lost, "% of the step"},
                      {"loader threads busy", 100 * producers.busy_share, "% of the time"},
                      {"loader thread time for the data", producers.service_ms, "ms a step"}};
  finding.fix.change = LoaderChange{LoaderOption::kNumWorkers, setting.workers};
  finding.fix.summary =
      fmt::format("Use {} loader threads instead of {}, and as many batches ahead", setting.workers, now);
  finding.fix.location =
      call_location(input.run, input.process, input.process.training_thread, producers.wait_call);
  if (!settle(finding, input, producers.loader, predict::check(producers.loader), setting))
    return std::nullopt;
  if (finding.prediction)
    finding.prediction->assumptions.emplace_back(
        "each batch takes the program's loader threads the mean time");
  return finding;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  double lost = input.rank.steady_input_share();
  if (lost < kLeastInputShare) return std::nullopt;
  if (input.loader) return framework_loader(input, lost);
  if (auto finding = pipeline_finding(kDataloaderWorkers, input, PipelineCause::kWorkers)) return finding;
  return input.producers ? program_threads(input, lost) : std::nullopt;
}

}  // namespace

const Rule kDataloaderWorkers{
    "dataloader-workers",
    "Too few loader workers, or none: training waits for data that more workers would have ready.",
    "Training waits for a batch while the worker that makes it is busy, and the simulated replay with more "
    "workers is faster on the CPU cores that the job gets. Or only some of its workers make batches, or some "
    "make more than others, because the dataset has no equal part (files, shards) for each. In programs that "
    "load data with threads "
    "instead "
    "of a DataLoader: those threads are busy all the time while the training thread waits. Or training waits "
    "for tf.data, Keras, Ray Data or DALI, and a stage of it works on one thread: a map or an interleave "
    "that "
    "is not parallel, `from_generator`, a PyDataset.",
    "Set `num_workers=N`. The report gives the smallest N within 1% of the best predicted one, one more if "
    "those "
    "would never be idle, at most as "
    "many as the CPU cores of the machine, divided by its ranks, can run (workers that sleep or wait for "
    "storage need little of a core; PyTorch warns of more workers than cores all the same) and /dev/shm has "
    "room for, and twice that where batches wait behind a slow one and cores are idle meanwhile. Whether "
    "storage serves more readers as fast is only "
    "predicted where the recording tells. Of workers that make no batches or fewer: an equal part of the "
    "dataset for each. "
    "For loader threads: as many as can prepare a step's "
    "data within a step. In other loaders: `num_parallel_calls=tf.data.AUTOTUNE`, processes behind "
    "`from_generator`, `PyDataset(workers=, use_multiprocessing=True)`, `prefetch_batches=`, `num_threads`; "
    "of those only an upper bound is known.",
    kThresholds,
    evaluate,
    attribute::Bottleneck::Input};

}  // namespace gpuwatch::advise
