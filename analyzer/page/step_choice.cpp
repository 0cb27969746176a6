// SPDX-License-Identifier: Apache-2.0
#include "analyzer/page/step_choice.h"

#include <algorithm>
#include <numeric>

namespace gpuwatch::page {

std::vector<ChosenSteps> choose_steps(const attribute::RankAttribution& rank, bool is_shown_rank) {
  constexpr size_t kFew = 6;
  const size_t count = rank.steps.size();
  if (count == 0) return {};
  std::vector<size_t> by_length(count);
  std::iota(by_length.begin(), by_length.end(), size_t(0));
  std::ranges::stable_sort(by_length, {}, [&](size_t i) {
    const model::Step& step = rank.steps[i].step;
    return step.end - step.begin;
  });
  const size_t typical = by_length[count / 2];
  std::vector<ChosenSteps> chosen = {{typical, typical + 1, count > 1 ? "typical" : "the only one"}};
  if (!is_shown_rank) return chosen;
  const auto add = [&](size_t begin, size_t end, const char* why) {
    if (std::ranges::none_of(chosen, [&](const auto& of) { return of.begin == begin && of.end == end; }))
      chosen.push_back({begin, end, why});
  };
  if (count > 2) {
    const size_t begin = std::min(typical > 0 ? typical - 1 : 0, count - 3);
    add(begin, begin + 3, "three in a row");
  }
  add(by_length[count - 1], by_length[count - 1] + 1, "slowest");
  if (count <= kFew) {
    for (size_t i = 0; i < count; ++i) add(i, i + 1, "");
    return chosen;
  }
  const size_t slow = by_length[count - 1 - count / 20];
  add(slow, slow + 1, "slower than 95%");
  add(by_length[0], by_length[0] + 1, "fastest");
  add(0, 1, "first");
  return chosen;
}

}  // namespace gpuwatch::page
