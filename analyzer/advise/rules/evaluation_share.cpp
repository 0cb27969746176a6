// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/advise/location.h"
#include "analyzer/advise/quick_steps.h"
#include "analyzer/advise/rule.h"
#include "analyzer/advise/steady_time.h"
#include "analyzer/model/phases.h"
#include "analyzer/model/sampled_evaluation.h"

namespace gpuwatch::advise {

extern const Rule kEvaluationShare;

namespace {

constexpr double kLeastShare = 0.20;
constexpr double kWanted = 0.05;

constexpr Threshold kThresholds[] = {
    {"evaluation", kLeastShare, "of training and evaluation",
     "5 to 10% is usual (one epoch of a tenth of the data)"},
    {"evaluation with the proposed interval", kWanted, "of training and evaluation",
     "the lower end of what is usual"},
};

// The loader that the first evaluation reads.
const model::Loader* evaluation_loader(const RuleInput& input, const std::vector<model::Phase>& phases) {
  const model::Thread& thread = input.process.threads[input.process.training_thread];
  const auto first = std::find_if(phases.begin(), phases.end(), [](const model::Phase& phase) {
    return phase.kind == model::PhaseKind::kEvaluation;
  });
  if (first == phases.end()) return nullptr;
  for (const model::HostCall& call : thread.calls) {
    if (call.begin < first->time.begin || call.op_class != trace::OpClass::LoaderNext || call.failed())
      continue;
    if (call.begin >= first->time.end) break;
    for (const model::Loader& loader : input.process.loaders)
      if (loader.id == call.correlation_or_object) return &loader;
    break;
  }
  return nullptr;
}

// Where the model is told to evaluate, of the first evaluation in which it is.
std::string where_it_begins(const RuleInput& input, const std::vector<model::Phase>& phases) {
  const model::Thread& thread = input.process.threads[input.process.training_thread];
  std::vector<model::TimeSpan> evaluations;  // as calls, in order of their begin
  for (const model::Phase& phase : phases)
    if (phase.kind == model::PhaseKind::kEvaluation) evaluations.push_back(phase.time);
  auto evaluation = evaluations.begin();
  for (uint32_t i = 0; i < thread.calls.size(); ++i) {
    const model::HostCall& call = thread.calls[i];
    if (call.operation >= input.run.operations.size() ||
        input.run.operations[call.operation].name != model::kModuleEval)
      continue;
    while (evaluation != evaluations.end() && evaluation->end <= call.begin) ++evaluation;
    if (evaluation == evaluations.end()) break;
    if (call.begin >= evaluation->begin)
      return call_location(input.run, input.process, input.process.training_thread, i);
  }
  return "";
}

// Training and evaluation, without what was neither: a notebook's user may have been away for an hour.
double trained_s(const model::StepSeries& series, const std::vector<model::Phase>& phases) {
  const model::TimeSpan span = model::training_span(series, phases);
  model::Ns trained = span.length();
  for (const model::Pause& pause : series.pauses)
    trained -=
        std::max<model::Ns>(0, std::min(pause.time.end, span.end) - std::max(pause.time.begin, span.begin));
  return double(trained) / 1e9;
}

constexpr const char* kLessOften = "Evaluate {}x less often, on fewer samples, or with a larger batch{}";

// Of a job whose steps are not seen: no more than how much of the time it takes.
std::optional<Finding> by_samples(const RuleInput& input) {
  if (input.device || input.device_hidden()) return std::nullopt;
  const auto seen = model::sampled_evaluation(input.run, input.process, steady_time(input));
  if (!seen || seen->share.low < kLeastShare) return std::nullopt;
  const double share = std::min(seen->share.share, 0.99);
  Finding finding = make_finding(kEvaluationShare, input, share);
  const int factor = std::clamp(int(std::ceil(share * (1 - kWanted) / (kWanted * (1 - share)))), 2, 1000);
  finding.title = fmt::format("Evaluation: training pauses {:.0f}% of the time", 100 * share);
  finding.evidence = {
      {"stack samples in evaluate() or predict()", 100 * share, "% of those of the training thread"},
      {"low end of the 95% interval", 100 * seen->share.low, "%"}};
  finding.fix.change = NamedChange{"evaluation interval",
                                   fmt::format("{} times as long", factor)};  // words: ok, fix.value in JSON
  finding.fix.summary = fmt::format(kLessOften, factor, "");
  if (!seen->line.file.empty()) finding.fix.location = seen->line.location();
  finding.ceiling_speedup = 1 / (1 - std::min(seen->share.high, 0.99));
  finding.bottleneck = attribute::Bottleneck::Host;
  finding.verdict =
      Verdict{"host-bound", fmt::format("HOST-BOUND: the job evaluates {:.0f}% of the time", 100 * share),
              *finding.ceiling_speedup, attribute::Bottleneck::Host};
  return finding;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (input.rank.steps.empty()) return by_samples(input);
  if (input.process.training_thread >= input.process.threads.size()) return std::nullopt;
  const auto phases = model::find_phases(input.process, input.rank.series);
  const double evaluation_s = double(model::total(phases, model::PhaseKind::kEvaluation)) / 1e9;
  const double run_s = trained_s(input.rank.series, phases);
  if (run_s <= 0 || evaluation_s < kLeastShare * run_s) return std::nullopt;
  const double share = std::min(evaluation_s / run_s, 0.99);
  const size_t count = size_t(std::count_if(phases.begin(), phases.end(), [](const model::Phase& phase) {
    return phase.kind == model::PhaseKind::kEvaluation;
  }));

  Finding finding = make_finding(kEvaluationShare, input, share);
  const double training_s = run_s - evaluation_s;
  const int less_often =
      std::max(2, int(std::ceil(evaluation_s * (1 - kWanted) / (kWanted * std::max(training_s, 1e-9)))));
  finding.title = fmt::format("Evaluation: training pauses {:.0f}% of the time", 100 * share);
  finding.evidence = {{"evaluation", 100 * share, "% of training and evaluation"},
                      {"evaluations", double(count), "in the run"},
                      {"time of one evaluation", evaluation_s / double(count), "s"}};
  const int factor = std::min(less_often, 1000);
  finding.fix.change = NamedChange{"evaluation interval",
                                   fmt::format("{} times as long", factor)};  // words: ok, fix.value in JSON
  finding.fix.summary = fmt::format(kLessOften, factor, " under torch.inference_mode()");
  if (const model::Loader* loader = evaluation_loader(input, phases)) finding.fix.location = loader->location;
  if (finding.fix.location.empty()) finding.fix.location = where_it_begins(input, phases);
  // The steps after an evaluation are slow ones: caches are cold, and workers may start again.
  finding.ceiling_speedup = 1 / ((1 - share) * quick_part(input.process, input.rank));
  finding.is_of_the_run = true;
  return finding;
}

}  // namespace

const Rule kEvaluationShare{
    "evaluation-share",
    "Evaluation takes a large part of the run.",
    "Between training steps, the job reads a DataLoader that training does not use, or calls the model's "
    "eval(), without optimizer steps. All other numbers of the report are about training steps and do not "
    "include evaluation. Of a job whose steps are not seen (Keras on JAX): stack samples of the training "
    "thread within evaluate() or predict().",
    "Evaluate less often, on fewer samples, with a larger batch or without gradients. The upper bound is "
    "for the whole run, not for a step.",
    kThresholds,
    evaluate,
    {attribute::Category::Phase},
    true};

}  // namespace gpuwatch::advise
