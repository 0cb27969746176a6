// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/loader_words.h"
#include "analyzer/advise/unseen_pipeline.h"
#include "analyzer/io/printable.h"
#include "analyzer/model/cpu_time.h"
#include "analyzer/model/stacks.h"

namespace gpuwatch::advise {

extern const Rule kInputPipeline;

namespace {

constexpr double kLeastInputShare = 0.05;
constexpr double kLeastComputing = 0.5;

constexpr Threshold kThresholds[] = {
    {"data stall", kLeastInputShare, "of the step",
     "the lower of XProf's two bands: below it a job is not input-bound"},
    {"CPU time of the process, for advice about the GIL", kLeastComputing, "of the data stall",
     "Python that computes uses a core all the time; one that reads or sleeps releases the GIL, and threads "
     "help"},
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
constexpr Advice kGilAdvice[] = {
#define GW_FRAMEWORK_GIL(framework, has, setting, value, summary, snippet) \
  {framework, has, "", setting, value, summary, snippet},
#include "libinject/trace/frameworks.def"
};

// One loader's pipeline, and what fits it.
class Pipeline {
 public:
  explicit Pipeline(const model::Loader& loader) : loader_(loader), stages_(pipeline_stages(loader)) {}

  template <size_t kCount>
  const Advice* find(const Advice (&rows)[kCount]) const {
    const auto found = std::ranges::find_if(rows, [&](const Advice& advice) {
      return advice.framework == loader_.framework && holds(advice.has) &&
             (advice.lacks.empty() || !holds(advice.lacks));
    });
    return found == std::end(rows) ? nullptr : &*found;
  }

  // Of several stages that fit, the one closest to the source, which works on single samples. A stage to add
  // goes after the last one; a framework's own stages, which stand on its line, are no place to add one.
  std::string location_for(const Advice& advice) const {
    const PipelineStage* at = nullptr;
    for (const PipelineStage& stage : stages_)
      if (stage.is(advice.has) && !stage.location.empty()) at = &stage;
    for (const PipelineStage& stage : stages_)
      if (!at && !stage.location.empty() && stage.location != loader_.location) at = &stage;
    return at ? at->location : loader_.location;
  }

 private:
  bool holds(std::string_view words) const {
    if (words.empty()) return true;
    if (words == "<") return stages_.size() > 1;
    return std::ranges::any_of(stages_, [&](const PipelineStage& stage) { return stage.is(words); }) ||
           loader_.class_name.find(fmt::format("({}", words)) != std::string::npos;  // "Mine (PyDataset, ..."
  }

  const model::Loader& loader_;
  const std::vector<PipelineStage> stages_;
};

// CPU cores that the process used, on average, in the recorded steps.
double cores_used(const RuleInput& input) {
  if (input.rank.steps.empty()) return 0;
  const model::TimeSpan span{input.rank.steps.front().step.begin, input.rank.steps.back().step.end};
  return span.length() > 0 ? model::cpu_time(input.process, span).own_ns / double(span.length()) : 0;
}

const Advice* advice_for(const RuleInput& input, const Pipeline& pipeline, double lost) {
  const Advice* of_gil = cores_used(input) >= kLeastComputing * lost ? pipeline.find(kGilAdvice) : nullptr;
  return of_gil ? of_gil : pipeline.find(kAdvice);
}

// Not only the same work on more threads.
bool saves_work(const Advice& advice) {
  constexpr std::string_view kSaves[] = {"cache", "tf.py_function", "tf.numpy_function"};
  return std::ranges::find(kSaves, advice.setting) != std::end(kSaves);
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const auto unseen = unseen_pipeline(input);  // recorded fetches: other rules say more
  if (!unseen) return std::nullopt;
  const model::Loader* loader = input.configured_loader();
  const double lost = unseen->wait_share;
  const Pipeline pipeline(*loader);
  const Advice* advice = advice_for(input, pipeline, lost);
  if (lost < kLeastInputShare || !advice) return std::nullopt;

  Finding finding = make_finding(kInputPipeline, input, lost);
  finding.title = fmt::format("Data loading: training waits for {} {:.0f}% of each step",
                              framework_name(loader->framework), 100 * lost);
  if (const auto code = model::sample_code(*loader))
    finding.title += fmt::format(", which calls the Python function {} ({})", io::printable(code->function),
                                 io::printable(code->location()));
  finding.evidence = {{"data stall", 100 * lost, "% of the step"},
                      {"available", double(input.process.cpu_count), "CPU cores"}};
  finding.fix.summary = advice->summary;
  finding.fix.change = NamedChange{std::string(advice->setting), std::string(advice->value)};
  finding.fix.snippet = advice->snippet;
  finding.fix.location = pipeline.location_for(*advice);
  finding.ceiling_speedup =
      saves_work(*advice) ? ceiling_without_input(input, lost) : ceiling_on_all_cores(input, *unseen);
  return finding;
}

}  // namespace

const Rule kInputPipeline{
    "input-pipeline",
    "Training waits for a loader other than PyTorch's: tf.data, Keras, Ray Data or DALI.",
    "Data stalls in that loader's next(), also inside a CUDA graph. Its own threads are not recorded, so the "
    "advice follows from how the pipeline is built: Python code in it (`tf.py_function`, `from_generator`), "
    "a map that is not parallel, no prefetch at its end, no cache. The place is the line that makes that "
    "stage.",
    "In the framework's own words: TensorFlow operations instead of `tf.py_function`, processes behind "
    "`from_generator`, `map(num_parallel_calls=tf.data.AUTOTUNE)`, "
    "`.prefetch(tf.data.AUTOTUNE)`, `.cache()`, `PyDataset(workers=, use_multiprocessing=True)`, "
    "`prefetch_batches=`. Only an upper bound of the gain is known.",
    kThresholds,
    evaluate,
    attribute::Bottleneck::Input};

}  // namespace gpuwatch::advise
