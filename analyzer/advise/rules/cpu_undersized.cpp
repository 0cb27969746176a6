// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/advise/machine.h"

namespace gpuwatch::advise {

extern const Rule kCpuUndersized;

namespace {

constexpr double kLeastInputShare = 0.10;
constexpr double kLeastBusy = 0.85;
constexpr double kLeastCpuShare = 0.70;

constexpr Threshold kThresholds[] = {
    {"waiting for data", kLeastInputShare, "of the step", "below it more cores have little to gain"},
    {"CPUs busy with this job", kLeastBusy, "of the CPUs it may use",
     "less, and there are cores left for more workers"},
    {"CPU time of a fetch", kLeastCpuShare, "of its duration",
     "less, and waiting for storage is the larger part, which needs no core"},
};

struct Demand {
  double fetch_cpu_ms = 0;  // a step
  double cpu_share = 0;     // of a fetch
};

Demand demand(const predict::LoaderReplayInput& loader) {
  double cpu = 0, service = 0, batches = 0;
  for (const predict::ReplayEpoch& epoch : loader.epochs) {
    for (const predict::BatchCost& batch : epoch.batches) {
      cpu += batch.cpu_ns;
      service += batch.service_ns;
      ++batches;
    }
  }
  if (batches == 0 || service <= 0) return {};
  return {cpu / batches * loader.batches_per_step / 1e6, cpu / service};
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const double lost = input.rank.steady_input_share();
  const auto use = machine_use(input);
  if (!input.loader || !use || lost < kLeastInputShare) return std::nullopt;
  if (use->throttled_share >= kLeastThrottled || use->steal_share >= kLeastSteal) return std::nullopt;
  const double has = std::max(1.0, double(input.process.cpu_count));
  const Demand needs = demand(*input.loader);
  if (use->job_cores < kLeastBusy * has || needs.cpu_share < kLeastCpuShare) return std::nullopt;
  const double without_wait_ms = std::max(input.input_floor_ms(), 1e-3);
  const double needed = std::ceil(needs.fetch_cpu_ms / without_wait_ms + input.loader->think_cores);
  if (needed <= has) return std::nullopt;

  Finding finding = make_finding(kCpuUndersized, input, lost);
  finding.title =
      fmt::format("Feeding this training needs {:.0f} cores, the machine has {:.0f}", needed, has);
  finding.evidence = {{"waiting for data", 100 * lost, "% of the step"},
                      {"CPU time of a step's data", needs.fetch_cpu_ms, "ms"},
                      {"step without waiting for data", without_wait_ms, "ms"},
                      {"CPU used by the job", use->job_cores, "cores"},
                      {"CPU used by others", use->other_cores, "cores"}};
  finding.fix.change = NamedChange{"CPU cores", fmt::format("{:.0f}", needed)};
  finding.fix.summary = fmt::format(
      "a machine with {:.0f} cores for each rank and num_workers={:.0f}, or transforms on the GPU", needed,
      std::max(1.0, needed - 1));
  if (const model::Loader* configured = input.configured_loader())
    finding.fix.location = configured->location;
  predict::LoaderSetting setting = input.loader_setting();
  setting.workers = std::max(setting.workers, int(needed));
  setting.cores = needed;
  finding.prediction = loader_prediction(input, *input.loader, input.loader_check, setting);
  if (finding.prediction)
    finding.prediction->assumptions.push_back("further cores are as fast as these");
  else
    finding.ceiling_speedup = std::max(1.0, input.now_ms / without_wait_ms);
  return finding;
}

}  // namespace

const Rule kCpuUndersized{
    "cpu-undersized",
    "The machine has too few cores to make batches as fast as training takes them.",
    "Training waits for data, fetches are mostly CPU time, and this job keeps the CPUs that it may use busy: "
    "the CPU time of a step's data, divided by the step without waiting, is more cores than there are. With "
    "cores left it is dataloader-workers, with a quota cpu-quota.",
    "A machine with that many cores a GPU, cheaper or precomputed transforms, or transforms on the GPU.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
