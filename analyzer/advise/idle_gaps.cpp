// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/idle_gaps.h"

#include <algorithm>

namespace gpuwatch::advise {

using attribute::Category;
using attribute::Slice;

IdleGap IdleGaps::before(const predict::HostEvent& event) {
  const model::Ns end = input_.process.threads[event.thread].calls[event.call].begin;
  const model::Ns begin = end - model::Ns(event.gap_ns);
  const std::vector<Slice>& slices = input_.rank.slices;
  while (next_ < slices.size() && slices[next_].end <= begin) ++next_;
  IdleGap gap;
  for (size_t i = next_; i < slices.size() && slices[i].begin < end; ++i) {
    const double ns = double(std::min(slices[i].end, end) - std::max(slices[i].begin, begin));
    if (ns <= 0) continue;
    if (slices[i].category == Category::HostCompute || slices[i].category == Category::HostWait)
      gap.script_ns += ns;
    else if (slices[i].category == Category::Sched)
      gap.delay_ns += ns;
    else if (attribute::info(slices[i].category).group == attribute::Group::Host)
      gap.other_ns += ns;
  }
  return gap;
}

predict::StreamReplayInput without_run_delay(const RuleInput& input) {
  predict::StreamReplayInput quiet = *input.streams;
  IdleGaps gaps(input);
  for (predict::HostEvent& event : quiet.events)
    if (event.thread == input.process.training_thread)
      event.gap_ns = std::max(0.0, event.gap_ns - gaps.before(event).delay_ns);
  return quiet;
}

}  // namespace gpuwatch::advise
