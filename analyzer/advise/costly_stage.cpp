// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/costly_stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "analyzer/advise/loader_words.h"
#include "analyzer/io/printable.h"

namespace gpuwatch::advise {

namespace {

// Those of which a program may have several, and which may cost something, with the method that makes them.
// The first that the name has counts.
constexpr struct {
  std::string_view name, method;
} kKinds[] = {
    {"FlatMap", "flat_map"},    {"Map", "map"},   {"Interleave", "interleave"}, {"Filter", "filter"},
    {"Generator", "generator"}, {"Scan", "scan"}, {"Unbatch", "unbatch"},       {"Window", "window"}};

auto find_kind(std::string_view name) {
  return std::ranges::find_if(kKinds, [&](const auto& kind) { return name.find(kind.name) != name.npos; });
}

std::string_view kind_of(std::string_view name) {
  const auto found = find_kind(name);
  return found == std::end(kKinds) ? std::string_view() : found->name;
}

// "MapAndBatch" is the program's map: TensorFlow put the batch into it.
std::string words_of(const std::string& name) {
  const auto found = find_kind(name);
  return found == std::end(kKinds) ? "the stage " + io::printable(name)
                                   : fmt::format("the {}", found->method);
}

// The place among the stages of this kind, from the end of the pipeline.
template <class Stages>
size_t place_in_kind(const Stages& stages, size_t index) {
  const std::string_view kind = kind_of(stages[index].name);
  return size_t(std::count_if(stages.begin(), stages.begin() + std::ptrdiff_t(index),
                              [&](const auto& stage) { return kind_of(stage.name) == kind; }));
}

// Among those that the program wrote; nullopt: not to be told from others.
std::optional<size_t> written_as(const std::vector<PipelineStage>& written, const model::PipelineWork& work,
                                 size_t index) {
  // What an interleave reads is made in the interleave's function.
  while (kind_of(work.stages[index].name).empty() && index > 0) index = work.stages[index].feeds;
  const std::string_view kind = kind_of(work.stages[index].name);
  const auto is_same = [&](const auto& stage) { return kind_of(stage.name) == kind; };
  const auto wrote = std::ranges::count_if(written, is_same),
             runs = std::ranges::count_if(work.stages, is_same);
  // What is before a full cache runs no more.
  const bool has_cache = std::ranges::any_of(written, [](const auto& stage) { return stage.is("Cache"); });
  if (kind.empty() || (has_cache ? wrote < runs : wrote != runs)) return std::nullopt;
  const size_t place = place_in_kind(work.stages, index);
  for (size_t i = 0; i < written.size(); ++i)
    if (is_same(written[i]) && place_in_kind(written, i) == place) return i;
  return std::nullopt;
}

bool has(const std::vector<PipelineStage>& stages, size_t from, std::string_view name) {
  return std::any_of(stages.begin() + std::ptrdiff_t(from), stages.end(),
                     [&](const PipelineStage& stage) { return stage.name.find(name) != stage.name.npos; });
}

// Of the stage at this place, by what comes before it; after a batch, a shuffle cannot move behind it.
Caching caching_of(const std::vector<PipelineStage>& written, size_t place, bool is_batched) {
  const size_t source = place + 1;
  const bool is_cached = has(written, 0, "Cache") && !has(written, source, "Cache");
  if (is_cached || has(written, source, "Repeat")) return Caching::kNever;
  if (!has(written, source, "Shuffle")) return Caching::kAfterIt;
  return is_batched ? Caching::kNever : Caching::kBeforeShuffle;
}

}  // namespace

CostlyStage costly_stage(const model::Loader& loader, const model::PipelineWork& work) {
  const auto costly = std::ranges::max_element(work.stages, {}, &model::StageWork::busy_ns);
  CostlyStage stage{.name = costly->name, .words = words_of(costly->name), .busy_ns = costly->busy_ns};
  const std::vector<PipelineStage> written = pipeline_stages(loader);
  const auto place = written_as(written, work, size_t(costly - work.stages.begin()));
  if (!place) return stage;
  const bool is_batched = has(written, *place + 1, "Batch");
  stage.location = written[*place].location;
  stage.caching = caching_of(written, *place, is_batched);
  stage.is_map_of_samples = kind_of(written[*place].name) == "Map" && !is_batched;
  return stage;
}

}  // namespace gpuwatch::advise
