// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/input_facts.h"
#include "analyzer/advise/loader_words.h"
#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

extern const Rule kDataloaderOversubscribed;

namespace {

using attribute::Category;

constexpr double kLeastRunDelay = 0.10;
constexpr double kSameSpeed = 1.01;
constexpr double kWorthFewer = 1.05;
constexpr double kMuchFaster = 1.10;
constexpr double kThreadsOfWorker = 2;
constexpr double kParallel = 1.5;
constexpr double kLeastStall = 0.05;

constexpr Threshold kThresholds[] = {
    {"workers runnable but not running", kLeastRunDelay, "of the time to make a batch",
     "an idle core shows 1 to 3%, two workers on 0.9 cores showed 50%"},
    {"step time with fewer workers", kSameSpeed, "times the step time now",
     "a smaller difference cannot be measured in a run"},
    {"step time now, where fewer workers are faster", kWorthFewer, "times that with fewer",
     "3% does not pay for what workers hide on a slower day: a job that hardly waited would have lost its "
     "only one"},
    {"the same, where the prediction is too wide to be given", kMuchFaster, "times that with fewer",
     "the middle of a wide range is little evidence"},
    {"threads of a worker", kThreadsOfWorker, "threads",
     "a PyTorch worker has a main thread and one that sends batches, most have one that shares memory"},
    {"CPU time of the workers", kParallel, "times that of making batches",
     "sending batches takes CPU time too, but seldom half as much as making them"},
    {"waiting for workers that wait for a CPU core", kLeastStall, "of the step",
     "below it a job is not input-bound"},
};

double run_delay_share(const InputFacts& facts) {
  return facts.fetch_ns > 0 ? facts.run_delay_ns / facts.fetch_ns : 0;
}

void locate(Finding& finding, const RuleInput& input) {
  if (const model::Loader* configured = input.configured_loader())
    finding.fix.location = configured->location;
}

// Threads that libraries start in a worker (OpenMP, OpenCV) compete with the other workers for CPU cores.
std::optional<Finding> threads_in_workers(const RuleInput& input, double delay) {
  const InputFacts& facts = *input.facts;
  const double lost = input.rank.share(Category::InputCpuStarved);
  const double parallel =
      facts.sampled_fetch_cpu_ns > 0 ? facts.sampled_worker_cpu_ns / facts.sampled_fetch_cpu_ns : 0;
  if (facts.threads <= kThreadsOfWorker || parallel < kParallel || lost < kLeastStall) return std::nullopt;

  Finding finding = make_finding(kDataloaderOversubscribed, input, lost);
  finding.title =
      "CPU contention: libraries start threads in the loader workers, " + stall_words(input, lost);
  finding.evidence = {{"each worker runs", double(facts.threads), "threads"},
                      {"CPU time of the workers", parallel, "times that of making batches"},
                      {"workers runnable but not running", 100 * delay, "% of the time to make a batch"},
                      {"CPU that workers and training got", input.loader->cores, "cores"},
                      share_evidence(input, Category::InputCpuStarved)};
  finding.fix.change = NamedChange{"OMP_NUM_THREADS", "1"};
  finding.fix.summary =
      "Limit the workers to one thread each: cv2.setNumThreads(0) and torch.set_num_threads(1) in "
      "worker_init_fn";
  // The environment is the training process's too, and there as many threads as cores may be what it needs.
  finding.fix.summary += input.rank.device == model::kNone
                             ? " (OMP_NUM_THREADS=1 for the whole job would slow training on the CPU)"
                             : ", or OMP_NUM_THREADS=1 for the whole job";
  // A named function: workers started by spawn or forkserver cannot unpickle a lambda.
  finding.fix.snippet =
      "def one_thread(worker_id): torch.set_num_threads(1); cv2.setNumThreads(0)  # DataLoader(..., "
      "worker_init_fn=one_thread)";
  locate(finding, input);
  finding.ceiling_speedup = ceiling_without_input(input, lost);  // training gets the cores, too
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
  finding.title = fmt::format(
      "Worker count: {} workers already share the {:.3g} CPU cores this job gets, more will not help",
      workers, input.loader->cores);
  finding.evidence = {{"workers runnable but not running", 100 * delay, "% of the time to make a batch"},
                      {"CPU that workers and training got", input.loader->cores, "cores"}};
  const LoaderChange fewer{LoaderOption::kNumWorkers, setting.workers};
  finding.fix.change = fewer;
  finding.fix.summary = fmt::format("Set {} to save memory, it is as fast",
                                    setting_words(fewer, input.configured_loader()).setting);
  finding.prediction = loader_prediction(input, *input.loader, input.loader_check, setting);
  locate(finding, input);
  return finding;
}

// Handing batches over, or CPU time that training needs, costs more than the last workers save.
std::optional<Finding> faster_with_fewer(const RuleInput& input) {
  predict::LoaderSetting setting = input.loader_setting();
  const int workers = setting.workers;
  if (workers != input.loader->setting.workers) return std::nullopt;
  const double now = expected_step_ms(input, *input.loader, setting);
  double best_ms = now;
  int best = workers;
  for (setting.workers = 0; setting.workers < workers; ++setting.workers) {
    const double ms = expected_step_ms(input, *input.loader, setting);
    if (ms * kSameSpeed > best_ms) continue;
    best_ms = ms;
    best = setting.workers;
  }
  if (now < best_ms * kWorthFewer) return std::nullopt;

  setting.workers = best;
  Finding finding = make_finding(kDataloaderOversubscribed, input, 1 - best_ms / now);
  const std::string cost = workers == 1 ? "1 worker costs more than it saves"
                                        : fmt::format("{} workers cost more than they save", workers);
  const std::string faster = best == 0   ? "none is faster"
                             : best == 1 ? "1 is faster"
                                         : fmt::format("{} are faster", best);
  finding.title = fmt::format("Worker count: {}, {}", cost, faster);
  const InputFacts& facts = *input.facts;
  finding.evidence = {{"time to make a batch", facts.per_batch(facts.fetch_ns) / 1e6, "ms"},
                      {"transfer from worker to trainer, at least", facts.transfer_ns / 1e6, "ms a batch"},
                      {"CPU that workers and training got", input.loader->cores, "cores"}};
  finding.bottleneck = attribute::Bottleneck::Input;  // also where most of it is waiting for a core
  propose(finding, input, {LoaderOption::kNumWorkers, best});
  finding.prediction = loader_prediction(input, *input.loader, input.loader_check, setting);
  if (finding.prediction) return finding;
  // Wider than the value itself. A replay that misses the recorded run says nothing of fewer workers, either.
  if (input.loader_check.trust() == predict::Trust::kCeilingOnly || now < best_ms * kMuchFaster)
    return std::nullopt;
  finding.ceiling_speedup = ceiling_by_replay(input, setting);
  return finding;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (!input.loader || !input.facts || input.loader->setting.workers < 1) return std::nullopt;
  const double delay = run_delay_share(*input.facts);
  if (delay >= kLeastRunDelay)
    if (auto finding = threads_in_workers(input, delay)) return finding;
  if (auto finding = faster_with_fewer(input)) return finding;
  return delay >= kLeastRunDelay ? too_many_workers(input, delay) : std::nullopt;
}

}  // namespace

const Rule kDataloaderOversubscribed{
    "dataloader-oversubscribed",
    "CPU contention among workers: there are more workers, or threads in workers, than CPU cores that the "
    "job gets.",
    "Workers are runnable but not running during a tenth of the time to make a batch. Either libraries in "
    "them started threads that use CPU time, or the simulated replay with fewer workers on the same cores "
    "is as fast. Or the replay with fewer workers, or none, is faster: batches so quickly made that handing "
    "them over costs more.",
    "Use fewer workers. If workers start threads: call `cv2.setNumThreads(0)` and `torch.set_num_threads(1)` "
    "in `worker_init_fn`. `OMP_NUM_THREADS=1` in the job's environment limits the training process too, "
    "which "
    "matters where it computes on the CPU.",
    kThresholds,
    evaluate,
    attribute::CategorySet(attribute::Bottleneck::Input) |
        attribute::CategorySet{attribute::Category::Sched}};

}  // namespace gpuwatch::advise
