// SPDX-License-Identifier: Apache-2.0
#include "analyzer/page/slices.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace gpuwatch::page {
namespace {

using model::Ns;

// Slices shorter than `shortest` with gaps no longer than that between them become one, by depth. What is
// left is in order again: a group begins where its first slice does.
std::vector<Slice> merged(const std::vector<Slice>& slices, Ns shortest) {
  struct Group {
    size_t at = 0;  // in the result
    Ns longest = 0;
    bool is_open = false;
  };
  std::vector<Slice> result;
  std::vector<Group> groups;  // by depth
  for (const Slice& slice : slices) {
    if (slice.depth >= groups.size()) groups.resize(slice.depth + 1);
    Group& group = groups[slice.depth];
    const Ns length = slice.end - slice.begin;
    if (length >= shortest) {
      group.is_open = false;
      result.push_back(slice);
      continue;
    }
    if (group.is_open && slice.begin - result[group.at].end <= shortest) {
      Slice& whole = result[group.at];
      whole.end = std::max(whole.end, slice.end);
      whole.count += slice.count;
      whole.covered += slice.covered;
      whole.batch = model::kNone;
      if (length > group.longest) {
        whole.name = slice.name;
        whole.tone = slice.tone;
        group.longest = length;
      }
      continue;
    }
    group = {result.size(), length, true};
    result.push_back(slice);
  }
  return result;
}

void reduce_one(Lane& lane, size_t most) {
  for (Slice& slice : lane.slices) slice.covered = slice.end - slice.begin;
  if (lane.slices.size() <= most) return;
  constexpr Ns kFirst = 500;
  std::vector<Slice> fewer;
  Ns shortest = kFirst;
  do {
    shortest *= 2;
    fewer = merged(lane.slices, shortest);
  } while (fewer.size() > most && shortest < Ns(1) << 60);
  lane.slices = std::move(fewer);
  lane.drawn_together = shortest;
}

}  // namespace

uint32_t Names::index_of(const std::string& text) {
  const auto [at, is_new] = indices_.try_emplace(text, uint32_t(all_.size()));
  if (is_new) all_.push_back(text);
  return at->second;
}

void nest(Lane& lane) {
  constexpr size_t kDeepest = 12;  // of recorded calls; deeper ones of a hostile trace share a line
  std::vector<Ns> ends;
  for (Slice& slice : lane.slices) {
    while (!ends.empty() && ends.back() <= slice.begin) ends.pop_back();
    slice.depth = uint32_t(std::min(ends.size(), kDeepest));
    ends.push_back(ends.empty() ? slice.end : std::min(slice.end, ends.back()));
  }
}

void reduce(std::vector<Lane>& lanes, size_t most) {
  std::vector<size_t> sizes;
  for (const Lane& lane : lanes) sizes.push_back(lane.slices.size());
  std::ranges::sort(sizes);
  size_t left = most, share = most;  // what the lanes that have most of them get
  for (size_t i = 0; i < sizes.size(); ++i) {
    share = left / (sizes.size() - i);
    if (sizes[i] > share) break;
    left -= sizes[i];
  }
  for (Lane& lane : lanes) reduce_one(lane, std::max<size_t>(share, 1));
}

nlohmann::ordered_json json(const Lane& lane, Ns origin) {
  using Json = nlohmann::ordered_json;
  Json slices = Json::array();
  for (const Slice& slice : lane.slices) {
    Json entry = {slice.begin - origin, slice.end - slice.begin, slice.name, slice.depth, size_t(slice.tone)};
    if (slice.count > 1 || slice.batch != model::kNone) {
      entry.push_back(slice.count);
      entry.push_back(slice.covered);
    }
    if (slice.batch != model::kNone) entry.push_back(slice.batch);
    slices.push_back(std::move(entry));
  }
  return {{"name", lane.name}, {"drawn_together_ns", lane.drawn_together}, {"slices", std::move(slices)}};
}

}  // namespace gpuwatch::page
