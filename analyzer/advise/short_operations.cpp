// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/short_operations.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/remedy_words.h"
#include "analyzer/io/printable.h"
#include "analyzer/model/framework_python.h"
#include "analyzer/model/short_lines.h"
#include "analyzer/model/training_framework.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;

// Keras or tf.function, switched to eager mode for debugging: debug-left-on says how to end it.
bool runs_eagerly(const model::Process& process) {
  return process.facts.contains("keras_run_eagerly") || process.facts.contains("tf_run_functions_eagerly");
}

void name_remedy(Finding& finding, const RuleInput& input, const model::FrameworkPython& python) {
  constexpr double kMostOfIt = 0.5;
  const bool is_torch = speaks_torch(input.process);
  if (runs_eagerly(input.process)) {
    finding.fix.change = NamedChange{"eager mode", "off"};
    finding.fix.summary = "Leave eager mode first, which lets Python call each operation, and look again";
    return;
  }
  const Remedy remedy = python.in_graph > kMostOfIt ? Remedy::kMoreInGraph : Remedy::kOneGraph;
  if (auto words = is_torch ? std::nullopt : remedy_words(input.process, remedy)) {
    finding.fix.change = NamedChange{std::move(words->setting), std::move(words->value)};
    finding.fix.summary = std::move(words->summary);
    finding.fix.snippet = std::move(words->snippet);
  } else if (!is_torch) {
    finding.fix.change = NamedChange{"operations", "fewer"};
    finding.fix.summary = "Compile the training step as one function, so that Python makes one call a step";
  } else if (python.optimizer > kMostOfIt) {
    finding.fix.change = NamedChange{"optimizer", "fused=True"};
    finding.fix.summary = "Use the optimizer with fused=True: one operation for all parameters";
  } else {
    finding.fix.change = NamedChange{"batch_size", "x4"};
    finding.fix.summary =
        "Use a larger batch (Python's time a step does not grow with it) and retune the learning rate, or "
        "torch.compile(model)";
  }
}

Finding finding_of(const Rule& rule, const RuleInput& input, double share) {
  Finding finding = make_finding(rule, input, share);
  finding.bottleneck = attribute::Bottleneck::Host;
  finding.explains = finding.explains | attribute::CategorySet{Category::Compute};
  return finding;
}

// A loop in the script's part of the model: what it takes goes with it, and so does its backward pass.
std::optional<Finding> own_operations(const Rule& rule, const RuleInput& input,
                                      const std::vector<model::TimeSpan>& time) {
  constexpr double kMostGone = 0.95;  // of the step: a bound beyond 20 times says nothing
  const auto lines = model::short_lines(input.run, input.process, time);
  const double of_step = input.rank.share(Category::Compute);
  if (!lines || lines->share.low * of_step < kLeastOwnShare) return std::nullopt;
  const double own = lines->share.share * of_step;
  const std::string function = io::printable(lines->line.function);
  Finding finding = finding_of(rule, input, lines->with_backward() * of_step);
  finding.title = fmt::format(
      "Launch-bound: {:.0f}% of each step goes into short operations that {}() calls one after another, and "
      "the backward pass goes through each of them",
      100 * own, function);
  finding.evidence = {{"seen among them", 100 * own, "% of each step"},
                      {"of the forward pass", 100 * lines->of_forward, "%"},
                      {"seen in the backward pass", 100 * lines->backward * of_step, "% of each step"},
                      {"stack samples", double(lines->samples), "of the training thread"}};
  finding.fix.change = NamedChange{"operations", "fewer"};
  finding.fix.summary = fmt::format(
      "Write what {}() loops over as one operation on whole tensors, or torch.compile the function",
      function);
  finding.fix.location = lines->line.location();
  // All of the backward pass, at best.
  finding.ceiling_speedup = ceiling_without(input, std::min(kMostGone, own + lines->backward * of_step));
  return finding;
}

}  // namespace

std::optional<Finding> short_operations(const Rule& rule, const RuleInput& input) {
  const auto time = attribute::times_of(input.rank, Category::Compute);
  if (speaks_torch(input.process))
    if (auto finding = own_operations(rule, input, time)) return finding;
  const auto python = model::framework_python(input.run, input.process, time);
  const double of_step = input.rank.share(Category::Compute);
  if (!python || python->share.low * of_step < kLeastPythonShare) return std::nullopt;
  const double share = python->share.share * of_step;
  Finding finding = finding_of(rule, input, share);
  const model::TrainingFramework* framework = model::training_framework(input.process);
  finding.title = fmt::format(
      "Launch-bound: {:.0f}% of each step goes into short operations that Python of {} calls one after "
      "another",
      100 * share, framework ? framework->name : "the framework");
  finding.evidence = {{"seen among the framework's short operations", 100 * share, "% of each step"},
                      {"such operations", share * input.rank.mean_step_ms(), "ms a step"},
                      {"of that in the optimizer", 100 * python->optimizer, "%"},
                      {"stack samples", double(python->samples), "of the training thread"}};
  if (!python->caller.file.empty()) finding.fix.location = python->caller.location();
  name_remedy(finding, input, *python);
  return finding;
}

}  // namespace gpuwatch::advise
