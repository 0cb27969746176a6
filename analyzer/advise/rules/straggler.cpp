// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/rule.h"
#include "analyzer/attribute/step_group.h"

namespace gpuwatch::advise {

extern const Rule kStraggler;

namespace {

using attribute::Bottleneck;
using attribute::GroupMember;
using attribute::LateMember;
using attribute::StepGroup;

constexpr Threshold kThresholds[] = {
    {"what the step takes longer than the slowest of the other ranks would need", attribute::kLateShare,
     "of the step", "XProf's lower band"},
    {"that it was this rank, of all waiting between the ranks", attribute::kLateOfWaiting, "of the waiting",
     "ranks that are late by turns are held up by chance"},
    {"steps in which the other ranks waited for it", double(attribute::kTimesLate), "steps",
     "a single long step is one event"},
};

std::string cause_words(const LateMember& late) {
  if (!late.bottleneck) return "what holds it up was not seen";
  return fmt::format("{} takes {:.3g} ms of its step, {:.3g} ms of theirs",
                     attribute::words(*late.bottleneck), late.own_ms, late.others_ms);
}

Fix fix_of(const std::string& name, const LateMember& late) {
  Fix fix;
  const bool is_machine = late.bottleneck == Bottleneck::Machine;
  if (is_machine)
    fix.summary =
        fmt::format("Free the CPU cores of {}: other programs, or more ranks and threads than cores", name);
  else if (late.bottleneck == Bottleneck::Compute)
    fix.summary = fmt::format(
        "Give {} as much work as the others: equal batches (length, padding), no computing that only it "
        "does, and an equally fast device",
        name);
  else
    fix.summary = fmt::format("Find out what only {} does: {}", name,
                              late.bottleneck ? attribute::info(late.category).words : "its own code");
  return fix;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (!input.group || !input.group->late) return std::nullopt;
  const StepGroup& group = *input.group;
  const GroupMember& member = *group.late_member();
  if (member.process != input.rank.process || group.step_ms <= 0) return std::nullopt;
  const LateMember& late = *group.late;
  const double next = group.step_without_ms(late.member);
  Finding finding = make_finding(kStraggler, input, 1 - next / group.step_ms);
  const std::string name = attribute::rank_name(input.process);
  finding.title = fmt::format("Straggler: the other ranks wait for {} {:.0f}% of each step; {}", name,
                              100 * late.others_wait_ms / group.step_ms, cause_words(late));
  finding.evidence = {{"the other ranks wait", 100 * late.others_wait_ms / group.step_ms, "% of the step"},
                      {"of all waiting between ranks, for " + name, 100 * member.waited_for, "%"},
                      {"step if it was on time", next, "ms"},
                      {"steps in which the others waited for it", double(member.times_last), "steps"}};
  finding.fix = fix_of(name, late);
  finding.ceiling_speedup = next > 0 ? group.step_ms / next : 1;
  finding.bottleneck = late.bottleneck;
  return finding;
}

}  // namespace

const Rule kStraggler{
    "straggler",
    "One rank comes late to the exchange of gradients, again and again, and all the others wait for it: the "
    "job's step is this rank's step.",
    "Of one step, the rank that communicates least came last; what the others communicate longer is waiting "
    "for it. What holds it up is what takes longer on it than on the others. Where that has a finding of its "
    "cause (data loading, a checkpoint), this one is a note. A rank's own advice is predicted for the whole "
    "job: down to the work of the next rank, and nothing for a rank that waits.",
    "What its cause says: more workers for its data, a checkpoint that does not block, equal batches, an "
    "equally fast machine.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
