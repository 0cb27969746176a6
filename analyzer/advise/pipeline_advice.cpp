// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/pipeline_advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/loader_words.h"
#include "analyzer/advise/unseen_pipeline.h"
#include "analyzer/io/printable.h"
#include "analyzer/model/cpu_time.h"
#include "analyzer/model/stacks.h"

namespace gpuwatch::advise {

namespace {

constexpr double kLeastComputing = 0.5;  // of the data stall: Python that computes uses a core all the time

struct Advice {
  std::string_view framework, has, lacks;
  PipelineCause cause;
  const char *setting, *value;
  std::string_view summary, snippet;
};
constexpr Advice kAdvice[] = {
#define GW_FRAMEWORK_PIPELINE(framework, has, lacks, cause, setting, value, summary, snippet) \
  {framework, has, lacks, PipelineCause::cause, setting, value, summary, snippet},
#include "libinject/trace/frameworks.def"
};
constexpr Advice kGilAdvice[] = {
#define GW_FRAMEWORK_GIL(framework, has, setting, value, summary, snippet) \
  {framework, has, "", PipelineCause::kTransforms, setting, value, summary, snippet},
#include "libinject/trace/frameworks.def"
};

// One loader's pipeline, and what fits it.
class Pipeline {
 public:
  Pipeline(const model::Loader& loader, const std::optional<model::PipelineWork>& work)
      : loader_(loader), work_(work), stages_(pipeline_stages(loader)) {}

  template <size_t kCount>
  const Advice* find(const Advice (&rows)[kCount]) const {
    const auto found = std::ranges::find_if(rows, [&](const Advice& advice) {
      return advice.framework == loader_.framework && holds(advice.has) && !is_rewritten(advice) &&
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

  bool runs(std::string_view name) const {
    return std::ranges::any_of(work_->stages,
                               [&](const model::StageWork& stage) { return stage.name == name; });
  }
  // TensorFlow has already done what the advice says: a map without state runs in parallel, and a prefetch is
  // put at the end. Python functions have state: their map at most became one with batch(), on one thread.
  bool is_rewritten(const Advice& advice) const {
    if (!work_) return false;
    if (advice.cause == PipelineCause::kPrefetch) return runs("Prefetch");
    if (advice.has == "Map" && (holds("tf.py_function") || holds("tf.numpy_function"))) return false;
    return (advice.has == "Map" || advice.has == "Interleave") && !runs(advice.has);
  }

  const model::Loader& loader_;
  const std::optional<model::PipelineWork>& work_;
  const std::vector<PipelineStage> stages_;
};

// CPU cores that the process used, on average, in the recorded steps.
double cores_used(const RuleInput& input) {
  if (input.rank.steps.empty()) return 0;
  const model::TimeSpan span{input.rank.steps.front().step.begin, input.rank.steps.back().step.end};
  return span.length() > 0 ? model::cpu_time(input.process, span).own_ns / double(span.length()) : 0;
}

const Advice* advice_for(const RuleInput& input, const Pipeline& pipeline) {
  const double lost = input.rank.steady_input_share();
  // While training does not wait it computes itself, on a core at least.
  const double while_waiting = cores_used(input) - (1 - lost);
  const Advice* of_gil = while_waiting >= kLeastComputing * lost ? pipeline.find(kGilAdvice) : nullptr;
  return of_gil ? of_gil : pipeline.find(kAdvice);
}

// Not only the same work on more threads.
bool saves_work(PipelineCause cause) {
  return cause == PipelineCause::kCache || cause == PipelineCause::kTransforms;
}

}  // namespace

std::optional<PipelineFix> pipeline_fix(const RuleInput& input, const UnseenPipeline& unseen) {
  const Pipeline pipeline(*input.configured_loader(), unseen.work);
  const Advice* advice = advice_for(input, pipeline);
  if (!advice) return std::nullopt;
  return PipelineFix{advice->cause,
                     {.summary = std::string(advice->summary),
                      .change = NamedChange{advice->setting, advice->value},
                      .location = pipeline.location_for(*advice),
                      .snippet = std::string(advice->snippet)}};
}

std::optional<Finding> pipeline_finding(const Rule& rule, const RuleInput& input, PipelineCause cause) {
  const auto unseen = unseen_pipeline(input);
  if (!unseen || unseen->wait_share < kPipelineStall.value) return std::nullopt;
  const auto fitting = pipeline_fix(input, *unseen);
  if (!fitting || fitting->cause != cause) return std::nullopt;
  const model::Loader& loader = *input.configured_loader();
  Finding finding = make_finding(rule, input, unseen->wait_share);
  finding.title = fmt::format("Data loading: training waits for {} {:.0f}% of each step",
                              framework_name(loader.framework), 100 * unseen->wait_share);
  if (const auto code = model::sample_code(loader))
    finding.title += fmt::format(", which calls the Python function {} ({})", io::printable(code->function),
                                 io::printable(code->location()));
  finding.evidence = {{"data stall", 100 * unseen->wait_share, "% of the step"},
                      {"available", double(input.process.cpu_count), "CPU cores"}};
  finding.fix = fitting->fix;
  finding.ceiling_speedup =
      saves_work(cause) ? ceiling_without_pipeline(input, *unseen) : ceiling_on_all_cores(input, *unseen);
  return finding;
}

}  // namespace gpuwatch::advise
