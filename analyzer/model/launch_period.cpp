// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/launch_period.h"

#include <algorithm>
#include <unordered_map>

namespace gpuwatch::model {
namespace {

constexpr double kMostTokens =
    0.8;  // of all, that equal repeats must cover: the rest is evaluation, saving, ...
constexpr size_t kMaxAnchors = 64;  // candidates tried; each costs one walk over the tokens
constexpr size_t kMaxGrouping = 8;  // times that the rarest kernel may occur in a step

struct Segment {
  size_t begin, end;  // tokens; the anchor is the last one
  uint64_t hash;
};

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 29;
}

std::vector<Segment> cut(std::span<const uint32_t> tokens, uint32_t anchor) {
  std::vector<Segment> segments;
  size_t begin = 0;
  uint64_t hash = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    hash = mix(hash, tokens[i]);
    if (tokens[i] != anchor) continue;
    segments.push_back({begin, i + 1, hash});
    begin = i + 1;
    hash = 0;
  }
  return segments;
}

// Every `count` segments make one.
std::vector<Segment> grouped(const std::vector<Segment>& segments, size_t count, size_t first) {
  std::vector<Segment> groups;
  for (size_t i = first; i + count <= segments.size(); i += count) {
    Segment group = segments[i];
    for (size_t j = 1; j < count; ++j) group.hash = mix(group.hash, segments[i + j].hash);
    group.end = segments[i + count - 1].end;
    groups.push_back(group);
  }
  return groups;
}

struct Usual {
  uint64_t hash = 0;
  size_t repeats = 0;
  size_t length = 0;
};

Usual usual_of(const std::vector<Segment>& segments) {
  std::unordered_map<uint64_t, size_t> counts;
  Usual usual;
  for (const auto& segment : segments) {
    const size_t count = ++counts[segment.hash];
    if (count > usual.repeats) usual = {segment.hash, count, segment.end - segment.begin};
  }
  return usual;
}

// Repeats with something added or left out (a log line's kernel) are steps; what is of another size is not.
std::vector<size_t> ends_of(const std::vector<Segment>& segments, const Usual& usual) {
  std::vector<size_t> ends;
  for (const auto& segment : segments) {
    const size_t length = segment.end - segment.begin;
    if (2 * length < usual.length || length > 2 * usual.length) continue;
    if (ends.empty()) ends.push_back(segment.begin);
    ends.push_back(segment.end);
  }
  return ends;
}

std::vector<uint32_t> rarest_first(std::span<const uint32_t> tokens) {
  std::unordered_map<uint32_t, size_t> counts;
  for (const uint32_t token : tokens) ++counts[token];
  std::vector<std::pair<size_t, uint32_t>> recurring;
  for (const auto& [token, count] : counts) {
    if (count >= kMinRepeats) recurring.push_back({count, token});
  }
  std::sort(recurring.begin(), recurring.end());
  std::vector<uint32_t> anchors;
  for (const auto& [count, token] : recurring) anchors.push_back(token);
  if (anchors.size() > kMaxAnchors) anchors.resize(kMaxAnchors);
  return anchors;
}

}  // namespace

LaunchPeriod find_launch_period(std::span<const uint32_t> tokens) {
  for (const uint32_t anchor : rarest_first(tokens)) {
    const auto segments = cut(tokens, anchor);
    for (size_t count = 1; count <= kMaxGrouping; ++count) {
      // The first repeat often holds set-up beside its step, so groups are counted from the second one.
      const auto groups = grouped(segments, count, 1);
      const Usual usual = usual_of(groups);
      if (usual.repeats < kMinRepeats) break;
      const double covered = static_cast<double>(usual.repeats * usual.length);
      if (covered < kMostTokens * static_cast<double>(tokens.size())) continue;
      return {usual.length, ends_of(groups, usual)};
    }
  }
  return {};
}

}  // namespace gpuwatch::model
