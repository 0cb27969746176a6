// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/input_facts.h"
#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

extern const Rule kDataloaderOversubscribed;

namespace {

using attribute::Category;

constexpr double kLeastRunDelay = 0.10;
constexpr double kSameSpeed = 1.01;
constexpr double kThreadsOfWorker = 2;
constexpr double kParallel = 1.5;
constexpr double kLeastStarved = 0.05;

constexpr Threshold kThresholds[] = {
    {"time of fetches spent runnable but not running", kLeastRunDelay, "of the fetch",
     "an idle core shows 1 to 3 %; two workers on 0.9 obtainable cores showed 50 %"},
    {"step time with fewer workers", kSameSpeed, "times",
     "what is slower by less cannot be told apart in a run"},
    {"threads of a worker", kThreadsOfWorker, "threads",
     "PyTorch's worker has its own and one that sends the batches"},
    {"CPU time of the workers", kParallel, "times that of the fetches",
     "sending batches takes CPU, too, but seldom half as much as making them"},
    {"waiting for workers that wait for a CPU", kLeastStarved, "of the step",
     "below it a job is not input bound"},
};

double run_delay_share(const InputFacts& facts) {
  return facts.fetch_ns > 0 ? facts.run_delay_ns / facts.fetch_ns : 0;
}

void locate(Finding& finding, const RuleInput& input) {
  if (const model::Loader* configured = input.configured_loader())
    finding.fix.location = configured->location;
}

// Threads that a worker's libraries started compete with the other workers: the job gets slower by it.
std::optional<Finding> threads_in_workers(const RuleInput& input, double delay) {
  const InputFacts& facts = *input.facts;
  const double lost = input.rank.share(Category::InputCpuStarved);
  const double parallel =
      facts.sampled_fetch_cpu_ns > 0 ? facts.sampled_worker_cpu_ns / facts.sampled_fetch_cpu_ns : 0;
  if (facts.threads <= kThreadsOfWorker || parallel < kParallel || lost < kLeastStarved) return std::nullopt;

  Finding finding = make_finding(kDataloaderOversubscribed, input, lost);
  finding.title = "Threads inside the loader workers take the CPU from each other";
  finding.evidence = {{"threads of a worker", double(facts.threads), "threads"},
                      {"CPU time of the workers, of what their fetches use themselves", parallel, "times"},
                      {"workers runnable but not running", 100 * delay, "% of the fetch time"},
                      {"cores that loader and training got", input.loader->cores, "cores"}};
  finding.fix.change = NamedChange{"OMP_NUM_THREADS", "1"};
  finding.fix.summary =
      "one thread a worker: OMP_NUM_THREADS=1, torch.set_num_threads(1) and "
      "cv2.setNumThreads(0) in worker_init_fn";
  finding.fix.snippet =
      "DataLoader(..., worker_init_fn=lambda worker: (torch.set_num_threads(1), cv2.setNumThreads(0)))";
  locate(finding, input);
  finding.ceiling_speedup = 1 / (1 - std::min(lost, 0.99));
  return finding;
}

std::optional<Finding> too_many_workers(const RuleInput& input, double delay) {
  predict::LoaderSetting setting = input.loader->setting;
  const int workers = setting.workers;
  if (workers < 2) return std::nullopt;
  double now = expected_step_ms(input, *input.loader, setting);
  for (setting.workers = 1; setting.workers < workers; ++setting.workers)
    if (expected_step_ms(input, *input.loader, setting) <= now * kSameSpeed) break;
  if (setting.workers >= workers) return std::nullopt;

  Finding finding =
      make_finding(kDataloaderOversubscribed, input, input.rank.share(Category::InputCpuStarved));
  finding.severity = Severity::kInfo;  // fewer workers free memory, they do not make the step shorter
  finding.title =
      fmt::format("More workers gain nothing, because {} already share {:.1f} cores that can be had", workers,
                  input.loader->cores);
  finding.evidence = {{"workers runnable but not running", 100 * delay, "% of the fetch time"},
                      {"cores that loader and training got", input.loader->cores, "cores"}};
  finding.fix.change = LoaderChange{LoaderOption::kNumWorkers, setting.workers};
  finding.fix.summary = fmt::format("num_workers={} is as fast", setting.workers);
  finding.prediction = loader_prediction(input, *input.loader, input.loader_check, setting);
  locate(finding, input);
  return finding;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (!input.loader || !input.facts || input.loader->setting.workers < 1) return std::nullopt;
  const double delay = run_delay_share(*input.facts);
  if (delay < kLeastRunDelay) return std::nullopt;
  auto finding = threads_in_workers(input, delay);
  return finding ? finding : too_many_workers(input, delay);
}

}  // namespace

const Rule kDataloaderOversubscribed{
    "dataloader-oversubscribed",
    "More workers (or threads in workers) than CPU that can really be had: they take it from each other.",
    "Workers are runnable but not running for a tenth of their fetch time, and either they have threads "
    "beside "
    "PyTorch's own that use CPU, or the replay with fewer workers on the same cores is as fast.",
    "Fewer workers; `OMP_NUM_THREADS=1` or `cv2.setNumThreads(0)` where workers start threads.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
