// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/graph_waits.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "analyzer/advise/copies.h"
#include "analyzer/advise/host_gaps.h"
#include "analyzer/advise/place_words.h"
#include "analyzer/model/script_work.h"
#include "analyzer/model/stacks.h"

namespace gpuwatch::advise {
namespace {

using predict::HostEvent;
using predict::HostRole;

uint64_t key(const HostEvent& event) {
  return uint64_t{event.thread} << 32 | event.call;
}

// Of a step, or of its part before an event.
struct Launches {
  size_t of_optimizer = 0, others = 0;
  std::map<uint32_t, size_t> of_model;  // of the others, by each thread that launched anything
};

bool is_part(size_t launches, size_t all) {
  return double(launches) >= std::max(kLeastGraphLaunches, kLeastGraphPart * double(all));
}

// A few launches on one side (the kernels of a metric) can stay outside of a graph, the optimizer's cannot:
// they are the end of the step. Where steps begin with them, what follows them is no part of the step before.
bool divides_step(const Launches& before, const Launches& whole) {
  const size_t all = whole.others + whole.of_optimizer;
  return is_part(before.others, all) &&
         (whole.of_optimizer > before.of_optimizer || is_part(whole.others - before.others, all));
}

bool divides_model(const Launches& before, const Launches& whole, uint32_t thread) {
  const auto launches = before.of_model.find(thread), all = whole.of_model.find(thread);
  if (launches == before.of_model.end() || all == whole.of_model.end()) return false;
  return is_part(launches->second, all->second) && is_part(all->second - launches->second, all->second);
}

class StepCount {
 public:
  void add(uint32_t step) { count_ += std::exchange(last_, step) != step; }
  size_t count() const { return count_; }

 private:
  size_t count_ = 0;
  uint32_t last_ = model::kNone;
};

class Finder {
 public:
  Finder(const RuleInput& input, const std::vector<LaunchSource>& left_alone)
      : input_(input),
        places_(sync_places(input)),
        in_step_(places_.size()),
        in_model_(places_.size()),
        whole_(input.assumed_streams->steps) {
    for (const LaunchSource& source : left_alone)
      for (const std::vector<uint64_t>* launches : {&source.members, &source.backward})
        left_alone_.insert(left_alone_.end(), launches->begin(), launches->end());
    std::ranges::sort(left_alone_);
    for (size_t i = 0; i < places_.size(); ++i)
      for (const uint64_t member : places_[i].members) place_of_.emplace_back(member, i);
    std::ranges::sort(place_of_);
    for (const HostEvent& event : input.assumed_streams->events) count(event, whole_[event.step]);
  }

  GraphWaits waits() {
    const CopyFacts copies =
        copy_facts(input_, [](const HostEvent&, const model::DeviceOp&) { return true; });
    const predict::EventFilter belongs_to_copy = copies.filter();
    Launches before;
    uint32_t step = model::kNone;
    for (const HostEvent& event : input_.assumed_streams->events) {
      if (std::exchange(step, event.step) != event.step) before = {};
      count(event, before);
      const bool is_wait = event.role == HostRole::kSync || event.role == HostRole::kBlockOnOwn;
      if (is_wait && !belongs_to_copy(event)) note(event, before);
    }
    GraphWaits result{in_most_steps(in_step_), in_most_steps(in_model_)};
    std::erase_if(result.in_model, [&](const SyncPlace& place) { return is_outside_model(place); });
    return result;
  }

 private:
  void count(const HostEvent& event, Launches& launches) const {
    if (event.op_class != trace::OpClass::Launch || event.op_count == 0) return;
    size_t& of_model = launches.of_model[event.thread];
    if (input_.assumed_streams->ops[event.first_op].is_of_optimizer) {
      ++launches.of_optimizer;
      return;
    }
    ++launches.others;
    of_model += !std::ranges::binary_search(left_alone_, key(event));
  }

  // Not of a thread that only copies (a prefetcher), of which no capture knows.
  void note(const HostEvent& event, const Launches& before) {
    if (!before.of_model.contains(event.thread)) return;
    const uint64_t call = key(event);
    const auto found = std::ranges::lower_bound(place_of_, call, {}, &std::pair<uint64_t, size_t>::first);
    if (found == place_of_.end() || found->first != call) return;  // a checkpoint's
    const Launches& whole = whole_[event.step];
    if (!divides_step(before, whole)) return;
    in_step_[found->second].add(event.step);
    if (divides_model(before, whole, event.thread)) in_model_[found->second].add(event.step);
  }

  double least_steps() const { return kRecurs * double(input_.rank.steps.size()); }

  std::vector<SyncPlace> in_most_steps(const std::vector<StepCount>& counts) const {
    std::vector<SyncPlace> result;
    for (size_t i = 0; i < places_.size(); ++i)
      if (double(counts[i].count()) >= least_steps()) result.push_back(places_[i]);
    std::ranges::stable_sort(result, std::ranges::greater(), &SyncPlace::times);
    return result;
  }

  // The compiler's graphs do not meet a loss that the loop over micro-batches reads. Short waits have no
  // stack: the others tell only where they are many, because all .item() are calls from one address.
  bool is_outside_model(const SyncPlace& place) const {
    std::set<const std::string*> stacks;
    size_t with_stack = 0;
    for (const uint64_t member : place.members) {
      const model::Thread& thread = input_.process.threads[member >> 32];
      const std::string* const stack = model::stack_of(input_.run, thread, thread.calls[uint32_t(member)]);
      if (!stack) continue;
      ++with_stack;
      stacks.insert(stack);
    }
    return double(with_stack) >= least_steps() && std::ranges::none_of(stacks, [](const std::string* stack) {
             return model::runs_in_model(model::frames_of(*stack));
           });
  }

  const RuleInput& input_;
  std::vector<SyncPlace> places_;
  std::vector<StepCount> in_step_, in_model_;          // by place
  std::vector<Launches> whole_;                        // by step
  std::vector<uint64_t> left_alone_;                   // sorted
  std::vector<std::pair<uint64_t, size_t>> place_of_;  // by wait, sorted
};

}  // namespace

GraphWaits graph_waits(const RuleInput& input, const std::vector<LaunchSource>& left_alone) {
  return Finder(input, left_alone).waits();
}

std::vector<SyncPlace> places_after(const RuleInput& input, std::vector<SyncPlace> places,
                                    const predict::EventFilter& launches) {
  std::erase_if(places, [&](const SyncPlace& place) {
    const predict::EventFilter is_wait = waits_at({place});
    size_t all = 0, behind = 0;
    bool follows = false;
    for (const HostEvent& event : input.assumed_streams->events) {
      if (event.op_class == trace::OpClass::Launch && event.op_count > 0) follows = launches(event);
      if (!is_wait(event)) continue;
      ++all;
      behind += follows;
    }
    return 2 * behind < all;
  });
  return places;
}

std::string places_words(const RuleInput& input, const std::vector<SyncPlace>& places) {
  constexpr size_t kMostLines = 3;
  std::vector<std::string> lines;
  for (const SyncPlace& place : places) {
    std::string line = short_location(location_of(input, place));
    if (!line.empty() && std::ranges::find(lines, line) == lines.end()) lines.push_back(std::move(line));
  }
  if (lines.empty()) return "in " + functions_of(input, {places.front()});
  if (lines.size() > kMostLines) {
    const size_t more = lines.size() - kMostLines + 1;
    lines.resize(kMostLines - 1);
    lines.push_back(fmt::format("{} other lines", more));
  }
  std::string words = "at " + lines[0];
  for (size_t i = 1; i < lines.size(); ++i) words += (i + 1 < lines.size() ? ", " : " and ") + lines[i];
  return words;
}

}  // namespace gpuwatch::advise
