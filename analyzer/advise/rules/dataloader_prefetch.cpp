// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/loader_words.h"
#include "analyzer/advise/location.h"
#include "analyzer/advise/pipeline_advice.h"
#include "analyzer/advise/queue_of_threads.h"
#include "analyzer/advise/worker_bound.h"

namespace gpuwatch::advise {

extern const Rule kDataloaderPrefetch;

namespace {

constexpr double kLeastInputShare = 0.02;
constexpr double kWithinBest = 1.01;
constexpr int kMostAhead = 16;

constexpr Threshold kThresholds[] = {
    {"data stall", kLeastInputShare, "of the step",
     "batches of uneven cost lose little each, and below it there is nothing to gain"},
    kLeastGain,
    kPipelineStall,
    {"prefetch_factor", kMostAhead, "batches a worker", "every prefetched batch takes shared memory"},
    {"the script's own loader threads are busy for less than", kBusyProducers, "of the time",
     "idle ones wait for room in the queue"},
};

// The smallest length close to the best; 0: none is longer.
int best_length(const RuleInput& input, predict::LoaderSetting setting) {
  const int before = setting.prefetch_factor, most = most_prefetched(input, setting, kMostAhead);
  std::vector<std::pair<int, double>> tried;
  double best = 0;
  for (int length = before + 1; length <= most; length = length < 4 ? length + 1 : length * 2) {
    setting.prefetch_factor = length;
    tried.emplace_back(length, expected_step_ms(input, *input.loader, setting));
    if (best == 0 || tried.back().second < best) best = tried.back().second;
  }
  for (const auto& [length, ms] : tried)
    if (ms <= best * kWithinBest) return length;
  return 0;
}

// A replay would need the time of each batch, and what is seen of such threads is their mean.
std::optional<Finding> queue_of_threads(const RuleInput& input) {
  const double lost = input.rank.share(attribute::Group::Input) * input.input_factor;
  if (lost < kLeastInputShare || !is_queue_too_short(input)) return std::nullopt;
  const predict::ProducerReplayInput& producers = *input.producers;
  Finding finding = make_finding(kDataloaderPrefetch, input, lost);
  finding.title = fmt::format("Prefetching: the script's queue is too short for batches of uneven cost, {}",
                              stall_words(input, lost));
  finding.evidence = {{"data stall", 100 * lost, "% of the step"},
                      {"loader threads busy", 100 * producers.busy_share, "% of the time"},
                      {"loader thread time for the data", producers.service_ms, "ms a step"}};
  finding.fix.change = NamedChange{"queue", "longer"};
  finding.fix.summary =
      "Let the threads make more batches ahead, 16 for example: they are idle while the queue is full, and "
      "in the mean as fast as training";
  finding.fix.location =
      call_location(input.run, input.process, input.process.training_thread, producers.wait_call);
  finding.ceiling_speedup = ceiling_without_input(input, lost);
  return finding;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (!input.loader) {
    auto of_pipeline = pipeline_finding(kDataloaderPrefetch, input, PipelineCause::kPrefetch);
    return of_pipeline ? of_pipeline : queue_of_threads(input);
  }
  predict::LoaderSetting setting = input.loader_setting();
  const double lost = input.rank.steady_input_share();
  if (setting.workers < 1 || lost < kLeastInputShare) return std::nullopt;
  const int before = setting.prefetch_factor, length = best_length(input, setting);
  if (length == 0) return std::nullopt;
  const double now = expected_step_ms(input, *input.loader, setting);
  setting.prefetch_factor = length;
  const double best = expected_step_ms(input, *input.loader, setting);
  if (now < best * kLeastSpeedup) return std::nullopt;

  Finding finding = make_finding(kDataloaderPrefetch, input, std::min(lost, 1 - best / now));
  finding.title = fmt::format("Prefetching: prefetch_factor={} is too small for batches of uneven cost, {}",
                              before, stall_words(input, lost));
  finding.evidence = {{"data stall", 100 * lost, "% of the step"},
                      {"time of the slowest batch", slowest_batch(*input.loader), "times the mean"},
                      share_evidence(input, attribute::Category::InputNoPrefetch),
                      share_evidence(input, attribute::Category::InputHeadOfLine),
                      {"spread of batch times", 100 * batch_variation(*input.loader), "% of their mean"}};
  propose(finding, input, {LoaderOption::kPrefetchFactor, setting.prefetch_factor});
  finding.prediction = loader_prediction(input, *input.loader, input.loader_check, setting);
  finding.ceiling_speedup =
      loader_ceiling(input, *input.loader, input.rank.share(attribute::Group::Input), setting.workers);
  return finding;
}

}  // namespace

const Rule kDataloaderPrefetch{
    "dataloader-prefetch",
    "The prefetch buffer is too short for batches of uneven cost: workers are idle while it is full, and "
    "training waits once a slow batch has emptied it. Or nothing is made ahead.",
    "Training waits for data although workers were idle before, batch times vary, and the simulated replay "
    "with a longer buffer is faster with the same workers. Or training waits for a tf.data pipeline whose "
    "stages work in parallel, and which has no `prefetch()`. Or for the script's own threads, which are idle "
    "in between and in the mean as fast as training.",
    "Set `prefetch_factor=N`. The report gives the smallest N within 1% of the best predicted one. In "
    "tf.data: "
    "`.prefetch(tf.data.AUTOTUNE)` as the last stage; of that only an upper bound is known.",
    kThresholds,
    evaluate,
    attribute::Bottleneck::Input};

}  // namespace gpuwatch::advise
