// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/steady_time.h"

#include <algorithm>

#include "analyzer/model/training_stacks.h"

namespace gpuwatch::advise {

using model::TimeSpan;

std::vector<TimeSpan> steady_time(const RuleInput& input) {
  std::vector<TimeSpan> spans;
  for (const attribute::StepAttribution& step : input.rank.steps)
    spans.push_back({step.step.begin, step.step.end});
  if (!spans.empty()) return spans;
  std::vector<model::Ns> samples;
  for (const model::WorkerStack* sample :
       model::training_samples(input.process, {{input.process.start, input.process.last_seen + 1}}))
    samples.push_back(sample->time);
  if (samples.empty()) return {};
  std::ranges::sort(samples);
  return {{samples[samples.size() / 2], samples.back() + 1}};
}

std::vector<TimeSpan> later_time(const RuleInput& input) {
  std::vector<TimeSpan> spans = steady_time(input);
  if (!input.rank.steps.empty()) spans.erase(spans.begin(), spans.begin() + ptrdiff_t(spans.size() / 2));
  return spans;
}

}  // namespace gpuwatch::advise
