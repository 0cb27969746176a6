// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/ranges.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <unordered_map>

namespace gpuwatch::model {
namespace {

constexpr size_t kFewestSteps = 3;
constexpr size_t kMostStepNames = 16;  // that are compared with each other; a job has one or two
constexpr size_t kDeepest = 64;
constexpr double kNearlyAll = 0.9;  // of the steps hold the range once; the rest are logging and cut ones

using Words = std::vector<std::string>;

bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}

// "run_trainingStep2" -> run, training, step
Words words_of(std::string_view name) {
  Words words;
  bool is_in_word = false;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool is_letter = is_lower(c) || is_upper(c);
    const bool begins = is_letter && (!is_in_word || (is_upper(c) && is_lower(name[i - 1])));
    if (begins) words.emplace_back();
    if (is_letter) words.back() += is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
    is_in_word = is_letter;
  }
  return words;
}

template <size_t N>
bool is_one_of(const std::string& word, const std::array<std::string_view, N>& list) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

constexpr std::array<std::string_view, 5> kStepWords{"step", "iteration", "iter", "batch", "minibatch"};
constexpr std::array<std::string_view, 16> kEmptyWords{
    "train", "training", "trainer", "profiler",  "global", "epoch",  "run", "main",
    "loop",  "pl",       "profile", "lightning", "mini",   "number", "no",  "nvtx"};
constexpr std::array<std::string_view, 7> kEvaluationWords{"eval",     "evaluate",   "evaluation", "val",
                                                           "validate", "validation", "test"};
constexpr std::array<std::string_view, 3> kCheckpointWords{"checkpoint", "checkpointing", "ckpt"};
constexpr std::array<std::string_view, 4> kSaveWords{"save", "saving", "write", "model"};

// Of the thread's ranges that `wanted` names; outer ones first where several begin together.
template <class Wanted>
std::vector<const Range*> select(const Thread& thread, Wanted wanted) {
  std::vector<const Range*> selected;
  for (const Range& range : thread.ranges)
    if (!range.is_mark && wanted(range)) selected.push_back(&range);
  return selected;
}

const std::string& text_of(const Run& run, uint32_t id) {
  static const std::string kNoText;
  const auto text = run.texts.find(id);
  return text == run.texts.end() ? kNoText : text->second;
}

// Remembers the answer for each text: there are far fewer names than ranges.
class Meanings {
 public:
  explicit Meanings(const Run& run) : run_(run) {}
  RangeMeaning of(const Range& range) {
    const auto [known, is_new] = known_.try_emplace(range.name, RangeMeaning::kOther);
    if (is_new) known->second = meaning_of(text_of(run_, range.name));
    return known->second;
  }

 private:
  const Run& run_;
  std::unordered_map<uint32_t, RangeMeaning> known_;
};

// Ranges by what recurs of their name.
class Groups {
 public:
  explicit Groups(const Run& run) : run_(run) {}
  void add(const Range& range) { ranges_[name(range)].push_back(&range); }
  const std::map<std::string, std::vector<const Range*>>& all() const { return ranges_; }

 private:
  const std::string& name(const Range& range) {
    const auto [known, is_new] = names_.try_emplace(range.name);
    if (is_new) known->second = recurring_name(text_of(run_, range.name));
    return known->second;
  }
  const Run& run_;
  std::unordered_map<uint32_t, std::string> names_;
  std::map<std::string, std::vector<const Range*>> ranges_;
};

// How many of `inner` lie in one of `outer`. Both in order of their begin.
size_t count_within(const std::vector<const Range*>& inner, const std::vector<const Range*>& outer) {
  size_t count = 0, next = 0;
  Ns covered_until = 0;
  for (const Range* range : inner) {
    for (; next < outer.size() && outer[next]->begin <= range->begin; ++next)
      covered_until = std::max(covered_until, outer[next]->end);
    count += range->end <= covered_until;
  }
  return count;
}

std::vector<Step> from_begin_to_begin(const std::vector<const Range*>& ranges) {
  std::vector<Step> steps;
  for (size_t i = 0; i < ranges.size(); ++i) {
    const Ns end = i + 1 < ranges.size() ? ranges[i + 1]->begin : ranges[i]->end;
    if (end > ranges[i]->begin) steps.push_back({ranges[i]->begin, end, 0, false});
  }
  return steps;
}

// How many of the steps hold exactly one begin of these ranges.
size_t steps_with_one(const std::vector<const Range*>& ranges, const std::vector<Step>& steps) {
  size_t with_one = 0, next = 0;
  for (const Step& step : steps) {
    while (next < ranges.size() && ranges[next]->begin < step.begin) ++next;
    size_t held = 0;
    for (; next < ranges.size() && ranges[next]->begin < step.end; ++next) ++held;
    with_one += held == 1;
  }
  return with_one;
}

// A step's number. Where a job starts anew at each epoch, nearly all still do.
bool counts_up(const std::vector<const Range*>& ranges) {
  size_t next = 0;
  for (size_t i = 1; i < ranges.size(); ++i)
    next += uint64_t(*ranges[i]->payload) == uint64_t(*ranges[i - 1]->payload) + 1;
  return double(next) >= kNearlyAll * double(ranges.size() - 1);
}

template <class Wanted>
std::vector<Step> outermost_steps(const Groups& groups, Wanted wanted) {
  std::vector<const std::vector<const Range*>*> candidates;
  for (const auto& [name, ranges] : groups.all())
    if (ranges.size() >= kFewestSteps && wanted(ranges)) candidates.push_back(&ranges);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](auto* a, auto* b) { return a->size() > b->size(); });
  if (candidates.size() > kMostStepNames) candidates.resize(kMostStepNames);
  for (const auto* ranges : candidates) {
    const bool is_inside = std::any_of(candidates.begin(), candidates.end(), [&](const auto* other) {
      return other != ranges && 2 * count_within(*ranges, *other) > ranges->size();
    });
    if (!is_inside) return from_begin_to_begin(*ranges);
  }
  return {};
}

}  // namespace

RangeMeaning meaning_of(std::string_view name) {
  const Words words = words_of(name);
  size_t steps = 0, empty = 0, checkpoints = 0, saves = 0;
  for (const std::string& word : words) {
    if (is_one_of(word, kEvaluationWords)) return RangeMeaning::kEvaluation;
    steps += is_one_of(word, kStepWords);
    empty += is_one_of(word, kEmptyWords);
    checkpoints += is_one_of(word, kCheckpointWords);
    saves += is_one_of(word, kSaveWords);
  }
  if (steps > 0 && steps + empty == words.size()) return RangeMeaning::kStep;
  if (checkpoints > 0 && checkpoints + saves == words.size()) return RangeMeaning::kCheckpoint;
  return RangeMeaning::kOther;
}

std::string recurring_name(std::string_view name) {
  std::string recurring;
  for (const char c : name) {
    const bool is_digit = c >= '0' && c <= '9';
    if (is_digit && !recurring.empty() && recurring.back() == '#') continue;
    recurring += is_digit ? '#' : c;
  }
  return recurring;
}

std::vector<TimeSpan> ranges_with_meaning(const Run& run, const Thread& thread, RangeMeaning meaning) {
  Meanings meanings(run);
  std::vector<TimeSpan> found;
  for (const Range* range : select(thread, [&](const Range& r) { return meanings.of(r) == meaning; }))
    if (found.empty() || range->begin >= found.back().end) found.push_back({range->begin, range->end});
  return found;
}

std::vector<Step> find_range_steps(const Run& run, const Thread& thread) {
  Meanings meanings(run);
  Groups named(run), numbered(run);
  for (const Range* range : select(thread, [](const Range&) { return true; })) {
    const RangeMeaning meaning = meanings.of(*range);
    if (meaning == RangeMeaning::kStep) named.add(*range);
    if (meaning == RangeMeaning::kOther && range->payload) numbered.add(*range);
  }
  std::vector<Step> steps = outermost_steps(named, [](const auto&) { return true; });
  return steps.empty() ? outermost_steps(numbered, counts_up) : steps;
}

std::vector<Step> align_to_ranges(const Run& run, const Thread& thread, const std::vector<Step>& steps) {
  if (steps.size() < kFewestSteps) return {};
  Groups groups(run);
  for (const Range* range : select(thread, [](const Range&) { return true; })) groups.add(*range);
  const std::vector<const Range*>* chosen = nullptr;
  Ns longest = 0;
  for (const auto& [name, ranges] : groups.all()) {
    const double expected = double(steps.size()), count = double(ranges.size());
    if (count < kNearlyAll * expected || kNearlyAll * count > expected + 1) continue;
    if (double(steps_with_one(ranges, steps)) < kNearlyAll * expected) continue;
    Ns total = 0;
    for (const Range* range : ranges) total += range->end - range->begin;
    if (total <= longest) continue;
    longest = total;
    chosen = &ranges;
  }
  return chosen ? from_begin_to_begin(*chosen) : std::vector<Step>{};
}

std::optional<RangeShare> innermost_range(const Run& run, const Thread& thread,
                                          const std::vector<TimeSpan>& intervals) {
  // Ranges begin in order, so the last one that has begun and not ended is the innermost; ends cut the time
  // too.
  const auto ranges = select(thread, [](const Range& range) { return !range.is_process; });
  std::map<std::pair<std::string, uint32_t>, Ns> inside;  // by recurring name and category
  std::vector<const Range*> open;
  size_t next = 0;
  for (const TimeSpan& interval : intervals) {
    for (Ns at = interval.begin; at < interval.end;) {
      for (; next < ranges.size() && ranges[next]->begin <= at; ++next) {
        if (open.size() == kDeepest) open.erase(open.begin());
        open.push_back(ranges[next]);
      }
      std::erase_if(open, [&](const Range* range) { return range->end <= at; });
      Ns until = next < ranges.size() ? std::min(interval.end, ranges[next]->begin) : interval.end;
      if (!open.empty()) {
        until = std::min(until, open.back()->end);
        inside[{recurring_name(text_of(run, open.back()->name)), open.back()->category}] += until - at;
      }
      at = until;
    }
  }
  const auto most = std::max_element(inside.begin(), inside.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == inside.end() || most->first.first.empty()) return std::nullopt;
  return RangeShare{most->first.first, text_of(run, most->first.second), most->second};
}

}  // namespace gpuwatch::model
