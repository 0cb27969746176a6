// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/long_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/location.h"
#include "analyzer/advise/rule.h"
#include "analyzer/model/script_work.h"
#include "analyzer/model/stacks.h"
#include "analyzer/model/training_stacks.h"

namespace gpuwatch::advise {

extern const Rule kLongSteps, kRecompilation, kCudnnAutotune, kMemoryPressureDevice, kCheckpointStall,
    kHostWork;

namespace {

using attribute::Category;
using model::Ns;

constexpr double kLeastShare = 0.05;
constexpr double kLeastIrregular = 0.20;
constexpr double kLeastIrregularMs = 20;
constexpr double kMostDelay = 0.10;
constexpr double kOwnExcess = 0.5;

constexpr Threshold kThresholds[] = {
    {"what such steps take longer than the others", kLeastShare, "of the time", "XProf's lower band"},
    {"the same where they come at no regular distance", kLeastIrregular, "of the time",
     "a busy machine lengthens steps at random; XProf's upper band"},
    {"and each of these", kLeastIrregularMs, "ms", "time slices of 3 to 10 ms lengthen short steps"},
    {"and waiting for a CPU core, at most", kMostDelay, "of the time",
     "above it the machine makes steps long"},
    {"of that, not explained by another rule", kOwnExcess, "of the longer time",
     "epoch changes, checkpoints and garbage collection have their own findings"},
};

// A host that runs ahead of its GPU and waits for it every tenth step, to log a loss, has nine short steps
// and a long one by its own clock, though the GPU works on all of them alike.
bool tells_of_a_step(const attribute::RankAttribution& rank, Category category) {
  const attribute::Group group = attribute::info(category).group;
  return category != Category::Sched &&
         (rank.device == model::kNone || group == attribute::Group::Host || group == attribute::Group::Input);
}

// Another rule says it, or it is no work of the job.
bool has_own_rule(Category category) {
  switch (category) {
    case Category::Checkpoint:
    case Category::Compile:
    case Category::Gc:
    case Category::PageFault:
    case Category::Phase:
      return true;
    default:
      return attribute::info(category).group == attribute::Group::Input;
  }
}

// The time that a disturbed machine adds belongs to whatever was disturbed.
double own_excess_ns(const attribute::RankAttribution& rank, const LongSteps& steps) {
  double own = 0, other = 0, net = 0;
  for (size_t c = 0; c < steps.excess.size(); ++c) {
    const auto category = static_cast<Category>(c);
    if (!tells_of_a_step(rank, category)) continue;
    net += double(steps.excess[c]);
    (has_own_rule(category) ? other : own) += double(std::max<Ns>(0, steps.excess[c]));
  }
  return own > 0 && own >= kOwnExcess * (own + other) ? net * own / (own + other) : 0;
}

// Of the step. All steps may come to take what the usual ones do, also those that such steps make longer:
// garbage of figures was collected in others ("up to 3.0x", and 6 times without them). What has a rule of its
// own stays.
double most_removed(const RuleInput& input, const LongSteps& steps) {
  double kept_ns = double(steps.usual_ns) * double(input.rank.steps.size());
  for (size_t c = 0; c < steps.excess.size(); ++c) {
    const auto category = static_cast<Category>(c);
    if (has_own_rule(category) && category != Category::Gc)
      kept_ns += double(std::max<Ns>(0, steps.excess[c]));
  }
  return share_of_now(input, std::max(0.0, 1 - kept_ns / double(input.rank.wall_ns)));
}

// What comes back in some steps and has a name: compiling, a search for an algorithm, memory that is full, a
// checkpoint with what it takes to make it.
bool has_own_finding(const RuleInput& input, double share) {
  return std::ranges::any_of(std::initializer_list<const Rule*>{&kRecompilation, &kCudnnAutotune,
                                                                &kMemoryPressureDevice, &kCheckpointStall},
                             [&](const Rule* rule) {
                               const auto finding = rule->evaluate(input);
                               return finding && finding->lost_share >= kOwnExcess * share;
                             });
}

// Host work at the same line is the same time: rollouts of an environment that sleeps, 58% of the steps by
// these sleeps and 79% by the steps that have them.
bool is_host_work(const RuleInput& input, const std::string& location, double share) {
  const auto finding = kHostWork.evaluate(input);
  return finding && !location.empty() && finding->fix.location == location &&
         finding->lost_share >= kOwnExcess * share;
}

std::string text_of(const model::StackFrame& frame) {
  return frame.location() + " " + frame.function;
}

struct Place {
  std::string function;
  std::string location;
  bool is_usual = false;  // the other steps are there, too, or may be
};

struct Stop {
  Ns ns = 0;
  model::StackFrame frame;
  uint16_t operation = 0;
};

// The user's line, and the call there, in which the training thread stopped longest in these steps and never
// in the others. Stacks are rationed: where the others have such calls without one, it may be theirs as well.
std::optional<Place> place_of_stops(const RuleInput& input, const LongSteps& steps) {
  constexpr Ns kStall = 1'000'000;  // shorter calls have no stack (hooks/stacks/stall_stacks.h)
  const model::Thread& thread = input.process.threads[input.process.training_thread];
  std::map<std::string, Stop> in_long;
  std::set<std::string> in_others;
  std::set<uint16_t> unseen_in_others;  // operations
  size_t step = 0;
  for (const model::HostCall& call : thread.calls) {
    while (step < input.rank.steps.size() && input.rank.steps[step].step.end <= call.begin) ++step;
    if (step == input.rank.steps.size()) break;
    if (call.begin < input.rank.steps[step].step.begin) continue;
    const bool is_long = std::binary_search(steps.members.begin(), steps.members.end(), step);
    const std::string* stack = model::stack_of(input.run, thread, call);
    if (!stack) {
      if (!is_long && call.end - call.begin >= kStall) unseen_in_others.insert(call.operation);
      continue;
    }
    const std::vector<model::StackFrame> frames = model::frames_of(*stack);
    const model::StackFrame* frame = model::users_frame(frames);
    if (!frame) continue;
    if (is_long)
      in_long.try_emplace(text_of(*frame), Stop{0, *frame, call.operation}).first->second.ns +=
          call.end - call.begin;
    else
      in_others.insert(text_of(*frame));
  }
  std::erase_if(in_long, [&](const auto& entry) { return in_others.contains(entry.first); });
  const auto longest =
      std::ranges::max_element(in_long, {}, [](const auto& entry) { return entry.second.ns; });
  if (longest == in_long.end()) return std::nullopt;
  const Stop& stop = longest->second;
  return Place{stop.frame.function, stop.frame.location(), unseen_in_others.contains(stop.operation)};
}

// What a step spends in each function of the user's and each package that is called deeper than stacks are
// recorded, by the samples within these steps: of matplotlib's figures every 20 steps, a line of its axis.py
// was named.
std::map<std::string, std::pair<double, Place>> time_in_functions(const RuleInput& input,
                                                                  const std::vector<model::TimeSpan>& steps) {
  double step_ns = 0;
  for (const model::TimeSpan& step : steps) step_ns += double(step.length()) / double(steps.size());
  std::map<std::string, std::pair<double, Place>> functions;
  for (const model::SeenFunction& seen : model::training_functions(input.run, input.process, steps)) {
    const std::string package(model::is_users(seen.frame) ? "" : model::library_of(seen.frame));
    if (package.empty()) {
      functions[seen.frame.file + " " + seen.frame.function] = {seen.share * step_ns,
                                                                {seen.frame.function, seen.frame.location()}};
    } else {
      functions[package].first += seen.share * step_ns;
      functions[package].second.function = package;
    }
  }
  return functions;
}

// The function in which these steps spend more than the others: most of what they take longer.
std::optional<Place> sampled_place(const RuleInput& input, const LongSteps& steps) {
  constexpr double kMostOfIt = 0.5;
  std::vector<model::TimeSpan> spans[2];
  for (size_t i = 0; i < input.rank.steps.size(); ++i) {
    const model::Step& step = input.rank.steps[i].step;
    spans[std::ranges::binary_search(steps.members, i)].push_back({step.begin, step.end});
  }
  constexpr double kAtEdges = 0.1;  // of a step: a sample or two at its edge
  const auto others = time_in_functions(input, spans[0]);
  std::pair<double, Place> most{};
  for (const auto& [name, function] : time_in_functions(input, spans[1])) {
    const auto other = others.find(name);
    const double usual_ns = other == others.end() ? 0 : other->second.first;
    if (function.first - usual_ns <= most.first) continue;
    most = {function.first - usual_ns, function.second};
    most.second.is_usual = others.empty() || usual_ns > kAtEdges * double(steps.usual_ns);
  }
  Place& place = most.second;
  if (place.location.empty() && !place.function.empty())
    if (const auto caller = model::caller_of(input.run, input.process, spans[1], place.function))
      place.location = caller->location();
  const double excess_ns = double(steps.excess_ns()) / double(steps.members.size());
  return most.first >= kMostOfIt * excess_ns && most.first > 0 ? std::optional(most.second) : std::nullopt;
}

std::optional<Place> find_place(const RuleInput& input, const LongSteps& steps) {
  const auto sampled = sampled_place(input, steps);
  return sampled ? sampled : place_of_stops(input, steps);
}

std::string ordinal(size_t number) {
  const bool is_teen = number / 10 % 10 == 1;
  const char* ending = is_teen            ? "th"
                       : number % 10 == 1 ? "st"
                       : number % 10 == 2 ? "nd"
                       : number % 10 == 3 ? "rd"
                                          : "th";
  return fmt::format("{}{}", number, ending);
}

std::string which_words(const LongSteps& steps, size_t all) {
  return steps.every > 0 ? fmt::format("every {} step takes", ordinal(steps.every))
                         : fmt::format("{} of {} steps take", steps.members.size(), all);
}

// Without a regular distance it may be the machine.
bool is_clear(const RuleInput& input, double share, double more_ms) {
  return share >= kLeastIrregular && more_ms >= kLeastIrregularMs &&
         input.rank.share(Category::Sched) <= kMostDelay;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (input.process.training_thread >= input.process.threads.size() || input.rank.wall_ns <= 0)
    return std::nullopt;
  const std::optional<LongSteps> steps = find_long_steps(input.rank);
  if (!steps) return std::nullopt;
  const double own_ns = own_excess_ns(input.rank, *steps), share = own_ns / double(input.rank.wall_ns);
  const double more_ms = own_ns / double(steps->members.size()) / 1e6;
  if (share < kLeastShare || (steps->every == 0 && !is_clear(input, share, more_ms))) return std::nullopt;
  if (has_own_finding(input, share)) return std::nullopt;
  const std::optional<Place> place = find_place(input, *steps);
  // Batches of uneven lengths: more of the same work.
  if (steps->every == 0 && place && place->is_usual) return std::nullopt;
  if (place && is_host_work(input, place->location, share)) return std::nullopt;
  Finding finding = make_finding(kLongSteps, input, share);
  const bool is_function = place && !place->function.empty() && !place->function.starts_with('<');
  finding.title = fmt::format("Long steps: {} {:.3g} ms more than the others{}, {:.0f}% of the time",
                              which_words(*steps, input.rank.steps.size()), more_ms,
                              is_function ? " in " + place->function : "", 100 * share);
  finding.evidence = {{"longer steps", more_ms, "ms more each"},
                      {"usual step", double(steps->usual_ns) / 1e6, "ms"},
                      {"such steps", double(steps->members.size()), "steps"},
                      {"what they take longer", 100 * share, "% of the time"}};
  finding.fix.change =
      NamedChange{"long steps", steps->every > 0 ? fmt::format("every {}", steps->every) : ""};
  finding.fix.summary = steps->every > 0
                            ? fmt::format(
                                  "Shorten what runs every {} steps (an evaluation, a rollout, a "
                                  "log), run it less often, or in another process",
                                  steps->every)
                            : "Find out what only some steps do, and run it less often or in another process";
  if (place) finding.fix.location = place->location;
  finding.ceiling_speedup = ceiling_without(input, most_removed(input, *steps));
  return finding;
}

}  // namespace

const Rule kLongSteps{
    "long-steps",
    "Some steps take several times as long as the others: an evaluation without a loader, rollouts of an "
    "environment, metrics, logging at an interval.",
    "At least three steps take more than three times the median, and what they take longer is not data "
    "loading, a checkpoint, garbage collection or compiling. Their distance says how often the script does "
    "it; the function is the one in which the training thread was seen longer, or stopped, in these steps.",
    "Do it less often or on fewer samples, run it in another process, or make it faster: rollouts in "
    "parallel "
    "environments, evaluation with a larger batch under `torch.inference_mode()`. The upper bound is a run "
    "without it.",
    kThresholds,
    evaluate,
    attribute::CategorySet(attribute::Bottleneck::Host) |
        attribute::CategorySet(attribute::Bottleneck::Copy) | attribute::CategorySet{Category::Compute}};

}  // namespace gpuwatch::advise
