// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/loader_words.h"
#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

extern const Rule kInputPipeline;

namespace {

constexpr double kLeastInputShare = 0.05;

constexpr Threshold kThresholds[] = {
    {"data stall", kLeastInputShare, "of the step",
     "the lower of XProf's two bands: below it a job is not input-bound"},
};

struct Advice {
  std::string_view framework, has, lacks;
  const char *setting, *value;
  std::string_view summary, snippet;
};
constexpr Advice kAdvice[] = {
#define GW_FRAMEWORK_PIPELINE(framework, has, lacks, setting, value, summary, snippet) \
  {framework, has, lacks, setting, value, summary, snippet},
#include "libinject/trace/frameworks.def"
};

bool holds(const model::Loader& loader, std::string_view words) {
  return loader.dataset.find(words) != std::string::npos ||
         loader.class_name.find(words) != std::string::npos;
}

const Advice* advice_for(const model::Loader& loader) {
  for (const Advice& advice : kAdvice) {
    if (advice.framework != loader.framework || !holds(loader, advice.has)) continue;
    if (advice.lacks.empty() || !holds(loader, advice.lacks)) return &advice;
  }
  return nullptr;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const model::Loader* loader = input.configured_loader();
  if (!loader || input.loader) return std::nullopt;  // recorded fetches: other rules say more
  const double lost = input.rank.steady_input_share();
  const Advice* advice = advice_for(*loader);
  if (lost < kLeastInputShare || !advice) return std::nullopt;

  Finding finding = make_finding(kInputPipeline, input, lost);
  finding.title = fmt::format("Data loading: training waits for {} {:.0f}% of each step",
                              framework_name(loader->framework), 100 * lost);
  finding.evidence = {{"data stall", 100 * lost, "% of the step"},
                      {"available", double(input.process.cpu_count), "CPU cores"}};
  finding.fix.summary = advice->summary;
  finding.fix.change = NamedChange{std::string(advice->setting), std::string(advice->value)};
  finding.fix.snippet = advice->snippet;
  finding.fix.location = loader->location;
  finding.ceiling_speedup = ceiling_without(input, lost);
  return finding;
}

}  // namespace

const Rule kInputPipeline{
    "input-pipeline",
    "Training waits for a loader other than PyTorch's: tf.data, Keras, Ray Data or DALI.",
    "Data stalls in that loader's next(), also inside a CUDA graph. Its own threads are not recorded, so the "
    "advice follows from how the pipeline is built: a map that is not parallel, no prefetch at its end, no "
    "cache.",
    "In the framework's own words: `map(num_parallel_calls=tf.data.AUTOTUNE)`, "
    "`.prefetch(tf.data.AUTOTUNE)`, `.cache()`, `PyDataset(workers=, use_multiprocessing=True)`, "
    "`prefetch_batches=`. Only an upper bound of the gain is known.",
    kThresholds,
    evaluate,
    attribute::Bottleneck::Input};

}  // namespace gpuwatch::advise
