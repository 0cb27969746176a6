// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/loader_words.h"
#include "analyzer/advise/machine.h"
#include "analyzer/advise/spared_faults.h"

namespace gpuwatch::advise {

extern const Rule kCpuUndersized;

namespace {

constexpr double kLeastInputShare = 0.10;
constexpr double kLeastBusy = 0.85;
constexpr double kLeastCpuShare = 0.70;
constexpr double kMostTraining = 0.5;
constexpr double kAnotherMachine = 4;

constexpr Threshold kThresholds[] = {
    {"data stall", kLeastInputShare, "of the step", "below it, more CPU cores gain little"},
    {"CPU used by this job", kLeastBusy, "of the CPU cores it may use",
     "below it, there are cores left for more workers"},
    {"CPU time", kLeastCpuShare, "of the time to make a batch",
     "below it, waiting for storage takes more of the time, and that needs no core"},
    {"CPU used by training itself, without a GPU: at most", kMostTraining, "cores",
     "training that computes on the CPU gains by more cores whatever its input does"},
    {"cores needed, for the finding to count half in the order", kAnotherMachine, "times those of this job",
     "another machine, which may not be had: to make less of a batch comes before it"},
};

struct CpuDemand {
  double fetch_cpu_ms = 0;  // a step
  double cpu_share = 0;     // of the time to make a batch
};

CpuDemand cpu_demand(const predict::LoaderReplayInput& loader) {
  const predict::BatchCost mean = predict::mean_batch(loader);
  if (mean.service_ns <= 0) return {};
  return {mean.cpu_ns * loader.batches_per_step / 1e6, mean.cpu_ns / mean.service_ns};
}

void name_fix(Finding& finding, const RuleInput& input, double cores) {
  const model::Loader* configured = input.configured_loader();
  const LoaderChange workers{LoaderOption::kNumWorkers, std::max(1, int(cores) - 1)};
  finding.fix.change = NamedChange{"CPU cores", fmt::format("{:.0f}", cores)};
  const bool has_gpu = input.rank.device != model::kNone || input.device_hidden();
  finding.fix.summary = fmt::format("Use {:.0f} CPU cores for each rank with {}, or {}", cores,
                                    setting_words(workers, configured).setting,
                                    has_gpu ? "run transforms on the GPU" : "make transforms cheaper");
  if (configured) finding.fix.location = configured->location;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const double lost = input.rank.steady_input_share();
  const auto use = machine_use(input);
  if (!input.loader || !use || lost < kLeastInputShare) return std::nullopt;
  // Which costs nothing comes first: of 55 ms to make a batch, memory that malloc gave back took 35.
  if (spared_faults_of_workers(input)) return std::nullopt;
  if (use->throttled_share >= kLeastThrottled || use->steal_share >= kLeastSteal) return std::nullopt;
  const double has = std::max(1.0, double(input.process.cpu_count));
  const CpuDemand needs = cpu_demand(*input.loader);
  if (use->job_cores < kLeastBusy * has || needs.cpu_share < kLeastCpuShare) return std::nullopt;
  const double without_wait_ms = std::max(input.input_floor_ms(), 1e-3);
  const double needed = std::ceil(needs.fetch_cpu_ms / without_wait_ms + input.loader->think_cores);
  if (needed <= has) return std::nullopt;
  const bool trains_on_cpu = input.rank.device == model::kNone && input.loader->think_cores_known &&
                             input.loader->think_cores > kMostTraining;
  if (trains_on_cpu) return std::nullopt;

  Finding finding = make_finding(kCpuUndersized, input, lost);
  finding.title = fmt::format("Too few CPU cores: keeping up needs {:.0f}, this job has {:.0f}, {}", needed,
                              has, stall_words(input, lost));
  finding.evidence = {{"data stall", 100 * lost, "% of the step"},
                      {"CPU time to prepare the data", needs.fetch_cpu_ms, "ms a step"},
                      {"step time without data stalls", without_wait_ms, "ms"},
                      {"CPU used by this job", use->job_cores, "cores"},
                      {"CPU used by other processes", use->other_cores, "cores"}};
  name_fix(finding, input, needed);
  finding.may_have_to_stay = needed >= kAnotherMachine * has;
  predict::LoaderSetting setting = input.loader_setting();
  setting.workers = std::max(setting.workers, int(needed));
  setting.cores = needed;
  finding.prediction = loader_prediction(input, *input.loader, input.loader_check, setting);
  finding.ceiling_speedup = ceiling_without_input(input, lost);  // training gets more of the cores, too
  return finding;
}

}  // namespace

const Rule kCpuUndersized{
    "cpu-undersized",
    "The machine has too few CPU cores to make batches as fast as training uses them.",
    "Training waits for data, making a batch is mostly CPU time, and this job keeps its CPU cores busy. The "
    "CPU time to prepare a step's data, divided by the step time without data stalls, gives the number of "
    "cores needed. Not where training itself computes on the CPU. With cores left the finding is "
    "`dataloader-workers`, under a CPU quota `cpu-quota`.",
    "Use a machine with that many CPU cores for each GPU, make transforms cheaper or precompute them, or "
    "run them on the GPU.",
    kThresholds,
    evaluate,
    attribute::Bottleneck::Input};

}  // namespace gpuwatch::advise
