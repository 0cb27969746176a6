// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

extern const Rule kDataloaderOversubscribed;

namespace {

constexpr double kLeastRunDelay = 0.10;
constexpr double kSameSpeed = 1.01;

constexpr Threshold kThresholds[] = {
    {"time of fetches spent runnable but not running", kLeastRunDelay, "of the fetch",
     "an idle core shows 1 to 3 %; two workers on 0.9 obtainable cores showed 50 %"},
    {"step time with fewer workers", kSameSpeed, "times",
     "what is slower by less cannot be told apart in a run"},
};

double run_delay_share(const model::Process& process) {
  double delay = 0, wall = 0;
  for (const model::LoaderPass& pass : process.passes) {
    for (const model::Batch& batch : pass.batches) {
      delay += double(batch.fetch_run_delay_ns);
      wall += double(batch.fetch.length());
    }
  }
  return wall > 0 ? delay / wall : 0;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (!input.loader || input.loader->setting.workers < 2) return std::nullopt;
  double delay = run_delay_share(input.process);
  if (delay < kLeastRunDelay) return std::nullopt;
  predict::LoaderSetting setting = input.loader->setting;
  double now = expected_step_ms(input, *input.loader, setting);
  for (setting.workers = 1; setting.workers < input.loader->setting.workers; ++setting.workers)
    if (expected_step_ms(input, *input.loader, setting) <= now * kSameSpeed) break;
  if (setting.workers >= input.loader->setting.workers) return std::nullopt;

  Finding finding =
      make_finding(kDataloaderOversubscribed, input, input.rank.share(attribute::Category::InputCpuStarved));
  finding.severity = Severity::kInfo;  // fewer workers free memory, they do not make the step shorter
  finding.title = fmt::format("More workers gain nothing: {} already share {:.1f} cores that can be had",
                              input.loader->setting.workers, input.loader->cores);
  finding.evidence = {{"workers runnable but not running", 100 * delay, "% of the fetch time"},
                      {"cores that loader and training got", input.loader->cores, "cores"}};
  finding.fix.setting = "num_workers";
  finding.fix.value = std::to_string(setting.workers);
  finding.fix.summary = fmt::format(
      "num_workers={} is as fast; look for threads inside workers (OMP_NUM_THREADS=1)", setting.workers);
  if (const model::Loader* configured = input.configured_loader())
    finding.fix.location = configured->location;
  return finding;
}

}  // namespace

const Rule kDataloaderOversubscribed{
    "dataloader-oversubscribed",
    "More workers (or threads in workers) than CPU that can really be had: they take it from each other.",
    "Workers are runnable but not running for a tenth of their fetch time, and the replay with fewer workers "
    "on "
    "the same cores is as fast.",
    "Fewer workers; `OMP_NUM_THREADS=1` or `cv2.setNumThreads(0)` where workers start threads.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
