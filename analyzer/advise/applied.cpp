// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/applied.h"

#include <algorithm>

#include "analyzer/advise/change.h"

namespace gpuwatch::advise {

void Applied::apply(const Finding& finding) {
  words_ += (words_.empty() ? "" : ", ") + finding.fix.summary;
  ++count_;
  const double after_ms = finding.known_gain()->value.expected, saved_ms = input_.now_ms - after_ms;
  input_.now_ms = after_ms;
  if (set_loader(finding.fix.change)) return;
  shorten_training(saved_ms);
  if (!finding.timeline) return;
  timeline_ = finding.timeline;
  assume_streams(input_, *timeline_);
}

const predict::LoaderReplayInput* Applied::loader() const {
  return input_.loader ? input_.loader : input_.producers ? &input_.producers->loader : nullptr;
}

bool Applied::set_loader(const Change& change) {
  if (!loader()) return false;
  predict::LoaderSetting setting = input_.assumed_loader.value_or(loader()->setting);
  if (!advise::apply(change, setting)) return false;
  input_.assumed_loader = setting;
  const double recorded = predict::replay(*loader(), loader()->setting).wait_ms;
  input_.input_factor = recorded > 0 ? predict::replay(*loader(), setting).wait_ms / recorded : 1;
  if (!input_.streams || timeline_) return true;  // a changed timeline stays as it is
  streams_ = with_assumed_input(input_);
  assume_streams(input_, streams_);
  return true;
}

// A training thread that does less between two batches asks for the next one earlier, and may have to wait.
void Applied::shorten_training(double saved_ms) {
  if (!input_.loader || saved_ms <= 0) return;
  const double think_ms = predict::replay(*input_.loader, input_.loader_setting()).think_ms;
  if (think_ms <= 0) return;
  const double left = std::max(0.0, 1 - saved_ms / think_ms);
  loader_ = *input_.loader;
  for (predict::ReplayEpoch& epoch : loader_.epochs)
    for (predict::BatchCost& batch : epoch.batches) batch.think_ns *= left;
  input_.loader = &loader_;
}

}  // namespace gpuwatch::advise
