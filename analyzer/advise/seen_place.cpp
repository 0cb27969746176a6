// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/seen_place.h"

#include "analyzer/advise/reported_ranges.h"
#include "analyzer/model/training_stacks.h"

namespace gpuwatch::advise {
namespace {

constexpr double kLeastAtPlace = 1.0 / 3;  // of the samples; less is one place among many

}  // namespace

void name_seen_place(Finding& finding, const RuleInput& input) {
  const auto* change = std::get_if<StreamChange>(&finding.fix.change);
  const bool is_of_batch = change && change->edit == StreamEdit::kScaleBatch;  // set elsewhere
  const bool is_of_script = finding.bottleneck == attribute::Bottleneck::Host && finding.distorts.empty();
  if (!finding.is_complaint() || !is_of_script || is_of_batch || !finding.fix.location.empty()) return;
  const auto seen = model::training_functions(input.run, input.process, time_of(input, finding.explains));
  if (!seen.empty() && seen.front().share >= kLeastAtPlace && model::is_users(seen.front().frame))
    finding.fix.location = seen.front().frame.location();
}

}  // namespace gpuwatch::advise
