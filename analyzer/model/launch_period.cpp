// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/launch_period.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace gpuwatch::model {
namespace {

constexpr double kLeastCovered =
    0.8;  // of all work, that equal repeats must cover: the rest is evaluation, saving, ...
constexpr size_t kMaxAnchors = 64;        // candidates tried; each costs one walk over the tokens
constexpr size_t kMaxVaryingAnchors = 8;  // each sorts all tokens
constexpr size_t kLeastDifferent = 3;     // tokens of a repeat whose length varies
constexpr size_t kMaxGrouping = 8;        // times that the rarest kernel may occur in a step

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

bool is_usual_length(const Segment& segment, const Usual& usual) {
  const size_t length = segment.end - segment.begin;
  return 2 * length >= usual.length && length <= 2 * usual.length;
}

// Repeats with something added or left out (a log line's kernel) are steps; what is of another size is not.
std::vector<size_t> ends_of(const std::vector<Segment>& segments, const Usual& usual) {
  std::vector<size_t> ends;
  for (const auto& segment : segments) {
    if (!is_usual_length(segment, usual)) continue;
    if (ends.empty()) ends.push_back(segment.begin);
    ends.push_back(segment.end);
  }
  return ends;
}

// Sums of weights from the first token on.
class Work {
 public:
  Work(size_t tokens, std::span<const double> weights) : sums_(weights.size() == tokens ? tokens + 1 : 0) {
    for (size_t i = 0; i + 1 < sums_.size(); ++i) sums_[i + 1] = sums_[i] + std::max(0.0, weights[i]);
    tokens_ = static_cast<double>(tokens);
  }
  // Enough of all, by tokens or by weight.
  bool is_most(double tokens, double weight) const {
    return tokens >= kLeastCovered * tokens_ || (all() > 0 && weight >= kLeastCovered * all());
  }
  double between(size_t begin, size_t end) const { return sums_.empty() ? 0 : sums_[end] - sums_[begin]; }

 private:
  double all() const { return sums_.empty() ? 0 : sums_.back(); }
  std::vector<double> sums_;
  double tokens_;
};

struct Anchor {
  uint32_t token;
  size_t count, first, last;
};

// Those between whose first and last occurrence most of the work lies: repeats are cut from there.
std::vector<uint32_t> rarest_first(std::span<const uint32_t> tokens, const Work& work, size_t min_repeats) {
  std::unordered_map<uint32_t, Anchor> seen;
  for (size_t i = 0; i < tokens.size(); ++i) {
    Anchor& anchor = seen.try_emplace(tokens[i], Anchor{tokens[i], 0, i, i}).first->second;
    ++anchor.count;
    anchor.last = i;
  }
  std::vector<Anchor> recurring;
  for (const auto& [token, anchor] : seen) {
    const size_t end = anchor.last + 1;
    if (anchor.count >= min_repeats &&
        work.is_most(static_cast<double>(end - anchor.first), work.between(anchor.first, end)))
      recurring.push_back(anchor);
  }
  std::sort(recurring.begin(), recurring.end(), [](const Anchor& a, const Anchor& b) {
    return std::tie(a.count, a.token) < std::tie(b.count, b.token);
  });
  std::vector<uint32_t> anchors;
  for (const Anchor& anchor : recurring) anchors.push_back(anchor.token);
  if (anchors.size() > kMaxAnchors) anchors.resize(kMaxAnchors);
  return anchors;
}

// Of the set of tokens in a segment, and how many they are.
struct TokenSet {
  uint64_t hash = 0;
  size_t count = 0;
};

TokenSet set_of(std::span<const uint32_t> tokens) {
  std::vector<uint32_t> distinct(tokens.begin(), tokens.end());
  std::ranges::sort(distinct);
  const auto tail = std::ranges::unique(distinct);
  distinct.erase(tail.begin(), tail.end());
  TokenSet set{0, distinct.size()};
  for (const uint32_t token : distinct) set.hash = mix(set.hash, token);
  return set;
}

// The median length of the segments with that set of tokens. Their hash becomes that of the set.
Usual usual_set(std::span<const uint32_t> tokens, std::vector<Segment>& segments) {
  std::unordered_map<uint64_t, size_t> different;
  for (Segment& segment : segments) {
    const TokenSet set = set_of(tokens.subspan(segment.begin, segment.end - segment.begin));
    different[segment.hash = set.hash] = set.count;
  }
  Usual usual = usual_of(segments);
  if (different[usual.hash] < kLeastDifferent) return {};
  std::vector<size_t> lengths;
  for (const Segment& segment : segments)
    if (segment.hash == usual.hash) lengths.push_back(segment.end - segment.begin);
  const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2);
  std::ranges::nth_element(lengths, middle);
  usual.length = *middle;
  return usual;
}

double weight_of(const std::vector<Segment>& segments, const Usual& usual, const Work& work) {
  double weight = 0;
  for (const auto& segment : segments)
    if (segment.hash == usual.hash) weight += work.between(segment.begin, segment.end);
  return weight;
}

}  // namespace

LaunchPeriod find_launch_period(std::span<const uint32_t> tokens, std::span<const double> weights,
                                size_t min_repeats) {
  const Work work(tokens.size(), weights);
  for (const uint32_t anchor : rarest_first(tokens, work, min_repeats)) {
    const auto segments = cut(tokens, anchor);
    for (size_t count = 1; count <= kMaxGrouping; ++count) {
      // The first repeat often holds set-up beside its step, so groups are counted from the second one.
      const auto groups = grouped(segments, count, 1);
      const Usual usual = usual_of(groups);
      if (usual.repeats < min_repeats) break;
      const double covered = static_cast<double>(usual.repeats * usual.length);
      if (!work.is_most(covered, weight_of(groups, usual, work))) continue;
      // Of few repeats none is spared.
      const bool is_first_taken =
          count == 1 && min_repeats < kMinRepeats && segments.front().hash == usual.hash;
      return {usual.length, ends_of(is_first_taken ? segments : groups, usual)};
    }
  }
  return {};
}

LaunchPeriod find_varying_period(std::span<const uint32_t> tokens, std::span<const double> weights) {
  const Work work(tokens.size(), weights);
  std::vector<uint32_t> anchors = rarest_first(tokens, work, kMinRepeats);
  if (anchors.size() > kMaxVaryingAnchors) anchors.resize(kMaxVaryingAnchors);
  for (const uint32_t anchor : anchors) {
    std::vector<Segment> segments = cut(tokens, anchor);
    const Usual usual = usual_set(tokens, segments);
    double covered = 0, weight = 0;
    size_t repeats = 0;
    for (const Segment& segment : segments) {
      if (segment.hash != usual.hash || !is_usual_length(segment, usual)) continue;
      ++repeats;
      covered += static_cast<double>(segment.end - segment.begin);
      weight += work.between(segment.begin, segment.end);
    }
    if (repeats >= kMinRepeats && work.is_most(covered, weight))
      return {usual.length, ends_of(segments, usual)};
  }
  return {};
}

}  // namespace gpuwatch::model
