// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/costly_stage.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "analyzer/advise/loader_words.h"

namespace gpuwatch::advise {

namespace {

// Those of which a program may have several, and which may cost something. The first that the name has
// counts.
constexpr std::string_view kKinds[] = {"FlatMap",   "Map",  "Interleave", "Filter",
                                       "Generator", "Scan", "Unbatch",    "Window"};

std::string_view kind_of(std::string_view name) {
  const auto found =
      std::ranges::find_if(kKinds, [&](std::string_view kind) { return name.find(kind) != name.npos; });
  return found == std::end(kKinds) ? std::string_view() : *found;
}

// The place among the stages of this kind, from the end of the pipeline.
template <class Stages>
size_t place_in_kind(const Stages& stages, size_t index) {
  const std::string_view kind = kind_of(stages[index].name);
  return size_t(std::count_if(stages.begin(), stages.begin() + std::ptrdiff_t(index),
                              [&](const auto& stage) { return kind_of(stage.name) == kind; }));
}

std::string location_of(const std::vector<PipelineStage>& written, const model::PipelineWork& work,
                        size_t index) {
  // What an interleave reads is made in the interleave's function.
  while (kind_of(work.stages[index].name).empty() && index > 0) index = work.stages[index].feeds;
  const std::string_view kind = kind_of(work.stages[index].name);
  const auto is_same = [&](const auto& stage) { return kind_of(stage.name) == kind; };
  const auto wrote = std::ranges::count_if(written, is_same),
             runs = std::ranges::count_if(work.stages, is_same);
  // What is before a full cache runs no more.
  const bool has_cache = std::ranges::any_of(written, [](const auto& stage) { return stage.is("Cache"); });
  if (kind.empty() || (has_cache ? wrote < runs : wrote != runs)) return {};
  const size_t place = place_in_kind(work.stages, index);
  for (size_t i = 0; i < written.size(); ++i)
    if (is_same(written[i]) && place_in_kind(written, i) == place) return written[i].location;
  return {};
}

}  // namespace

CostlyStage costly_stage(const model::Loader& loader, const model::PipelineWork& work) {
  const auto costly = std::ranges::max_element(work.stages, {}, &model::StageWork::busy_ns);
  return {costly->name, location_of(pipeline_stages(loader), work, size_t(costly - work.stages.begin())),
          costly->busy_ns};
}

}  // namespace gpuwatch::advise
