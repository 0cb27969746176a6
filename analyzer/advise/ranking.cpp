// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/ranking.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "analyzer/advise/applied.h"
#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/diagnose.h"
#include "analyzer/advise/idle_gaps.h"
#include "analyzer/advise/quick_steps.h"
#include "analyzer/advise/seen_place.h"

namespace gpuwatch::advise {
namespace {

constexpr double kLargeSpeedup = 1.10;

double recovered(double speedup) {
  return speedup > 1 ? 1 - 1 / speedup : 0;
}

double upper_bound(const Finding& finding) {
  double ceiling = finding.ceiling_speedup.value_or(1);
  if (finding.lost_share < 1) ceiling = std::min(ceiling, 1 / (1 - finding.lost_share));
  return recovered(ceiling);
}

// Of what is recovered of a step, what counts against the gains of others. Checkpoints that took 43% of a run
// came after launches that took 45% of its steps, which were 42% of it.
double counted_part(const Finding& finding) {
  return finding.part_of_run * (finding.may_have_to_stay ? 0.5 : 1);
}

constexpr double kLikely = 0.5;  // of what may be gained, counts

// Of an upper bound.
double likely_part(const Finding& finding) {
  return finding.is_in_vain ? 1 : kLikely;
}

// Of what is known to be gained, what can be counted on. A range that is too wide to be given says no less
// than a bound: a worker was expected to gain 1.49 times (1.01 to 1.73), achieved 1.40, and came after
// threads that gained 1.09 of up to 1.41.
double counted_on(const predict::Prediction& known, bool is_too_wide) {
  const double low = recovered(known.speedup.low);
  const bool may_lose = known.speedup.low < 1;
  return is_too_wide && !may_lose ? std::max(low, kLikely * recovered(known.speedup.expected)) : low;
}

// What is known to be gained, then what is expected, then what may be.
using Strength = std::tuple<double, double, double>;
Strength strength(const Finding& finding) {
  const auto& known = finding.known_gain();
  const double of_run = finding.part_of_run;
  if (!known) return {expected_recovery(finding), 0, of_run * upper_bound(finding)};
  const predict::Estimate& speedup = known->speedup;
  const double counted = counted_part(finding);
  return {counted * counted_on(*known, !finding.prediction), counted * recovered(speedup.expected),
          of_run * recovered(speedup.high)};
}

bool is_option(const Finding& finding) {
  return std::holds_alternative<LoaderChange>(finding.fix.change);
}

// Both about the same bottleneck, and only the gain of `a` is predicted. Not where that hardly helps, and
// half of what the other may bring is more: two workers gained 1.13 times where images were made anew every
// epoch, storing them 20 times; without 10% of host work a step was 1.09 times as fast, without the Python
// loop that launched 1200 kernels 4 times. Of a range that is too wide to be given, its middle, unless
// it is an option of the loader: memory that malloc keeps (1.3 times, up to 2) came before photos of
// 1600x1200 that were shown in 96 and gained 7 times.
bool is_predicted_better(const Finding& a, const Finding& b) {
  if (is_option(b)) return true;
  const predict::Estimate& gain = a.known_gain()->speedup;
  return counted_part(b) * upper_bound(b) * likely_part(b) <=
         counted_part(a) * recovered(a.prediction || is_option(a) ? gain.high : gain.expected);
}

bool edits(const Finding& finding, StreamEdit edit) {
  const auto* change = std::get_if<StreamChange>(&finding.fix.change);
  return change && change->edit == edit;
}

bool ends_waits(const Finding& finding) {
  return edits(finding, StreamEdit::kDropSynchronizations);
}

// One operation on the batch in place of a loop over samples: with a larger batch the loop launches more.
bool may_loop_over_samples(const Finding& finding) {
  return edits(finding, StreamEdit::kMergeOwnLaunches);
}

// A larger batch is another training: it comes after what leaves the batch as it is, unless it gains at least
// twice what that could. A deep network of short kernels was launch-bound (up to 2.1x), whatever 16 times its
// batch of 256 gained. And always after the script's waits for the GPU: counting the tokens of each expert
// cost a mixture 1.6 times. And after a loop that may be one over samples: of clipping each sample's gradient
// twice the lot took twice the time.
bool leaves_batch(const Finding& finding, const Finding& batch) {
  constexpr double kMuchMore = 2;
  if (!batch.is_conditional || !batch.may_have_to_stay || !batch.known_gain()) return false;
  if (!finding.is_complaint() || finding.is_conditional) return false;
  const auto& known = finding.known_gain();
  const double most = std::max(known ? known->speedup.high : 1, finding.ceiling_speedup.value_or(1));
  return most >= kLargeSpeedup && (ends_waits(finding) || may_loop_over_samples(finding) ||
                                   batch.known_gain()->speedup.low < kMuchMore * most);
}

// Or neither is predicted, and `a` is an option of the loader: the bound of that comes from a replay, the
// other from a share. Not where the other could make twice as much of it: nine workers that wait for small
// files on a remote mount gained 7 times, packing the files 32 times. Nor where the other ends the reads that
// workers only share: whether storage serves more of them is as open.
bool is_better_known(const Finding& a, const Finding& b) {
  const double much_more = std::holds_alternative<StorageChange>(b.fix.change) ? 1 : 2;
  if (!a.bottleneck || a.bottleneck != b.bottleneck || b.known_gain() || leaves_batch(b, a)) return false;
  if (a.is_of_the_run != b.is_of_the_run) return false;
  if (a.known_gain()) return is_predicted_better(a, b);
  return is_option(a) && !is_option(b) &&
         b.ceiling_speedup.value_or(1) < much_more * a.ceiling_speedup.value_or(1);
}

// Gains that differ by less than 1% of the step are equal: then the order of rules.def decides.
bool is_stronger(const Strength& a, const Strength& b) {
  constexpr double kSame = 0.01;
  const auto [low_a, expected_a, high_a] = a;
  const auto [low_b, expected_b, high_b] = b;
  if (std::abs(low_a - low_b) >= kSame) return low_a > low_b;
  if (std::abs(expected_a - expected_b) >= kSame) return expected_a > expected_b;
  return high_a > high_b + kSame;
}

bool share_a_rank(const Finding& a, const Finding& b) {
  return std::ranges::any_of(
      a.ranks, [&](uint32_t rank) { return std::ranges::find(b.ranks, rank) != b.ranks.end(); });
}

bool is_symptom_of(const Finding& symptom, const Finding& cause) {
  return cause.is_complaint() && symptom.is_complaint() && symptom.distorts.empty() &&
         !symptom.is_of_set_up && symptom.bottleneck &&
         std::ranges::find(cause.distorts, *symptom.bottleneck) != cause.distorts.end() &&
         share_a_rank(symptom, cause);
}

// To read data later where the script's work on them is the cause (advise/work_on_results.h): another way to
// the same time, where that work has a finding.
bool is_other_way(const Finding& finding, const Finding& first) {
  return finding.is_alternative && ends_waits(finding) && edits(first, StreamEdit::kShortenHostWork) &&
         share_a_rank(finding, first);
}

// A CUDA graph cannot hold waits between its launches (advise/graph_waits.h): `launch-bound` then only names
// it, with an upper bound for the step without them, and the change that ends them comes first.
bool counts_on(const Finding& graph, const Finding& change) {
  return graph.id == "launch-bound" && std::holds_alternative<NamedChange>(graph.fix.change) &&
         change.is_complaint() && ends_waits(change) && share_a_rank(graph, change);
}

bool is_symptom_of_one(const Finding& finding, const std::vector<Finding>& causes) {
  return std::ranges::any_of(causes, [&](const Finding& cause) { return is_symptom_of(finding, cause); });
}

// Workers that compute beside training that computes on all cores: seven programs of eight became slower.
// Those that sleep or read leave the cores to it.
bool would_compete(const predict::LoaderReplayInput& loader) {
  constexpr double kComputes = 0.5;  // of the time of a fetch
  const predict::BatchCost mean = predict::mean_batch(loader);
  return loader.think_cores_known && loader.think_cores > 1 && mean.cpu_ns >= kComputes * mean.service_ns;
}

bool adds_workers(const RuleInput& input, const Finding& finding) {
  predict::LoaderSetting setting = input.loader_setting();
  return advise::apply(finding.fix.change, setting) && setting.workers > input.loader_setting().workers;
}

std::vector<Finding> evaluate_rules(const RuleInput& input, const std::vector<Finding>& except) {
  const bool has_enough_steps = input.rank.steps.size() >= kLeastSteps;
  std::vector<Finding> findings;
  for (const Rule* rule : all_rules()) {
    if (find(except, rule->id) || (!has_enough_steps && !rule->without_steps)) continue;
    auto finding = rule->evaluate(input);
    if (finding && is_worth_naming(input, *finding)) findings.push_back(std::move(*finding));
  }
  return findings;
}

// Other programs that take the core now and then make any change look good that lets the GPU run ahead. What
// would gain nothing on a machine of its own is no cause in this job.
void drop_what_only_delay_explains(const RuleInput& input, std::vector<Finding>& findings) {
  constexpr double kLeastDelay = 0.01;  // of the step; what is not worth a finding needs 3%
  if (!input.streams || input.rank.share(attribute::Category::Sched) < kLeastDelay) return;
  const auto by_timeline = [](const Finding& finding) {
    return finding.prediction && std::holds_alternative<StreamChange>(finding.fix.change);
  };
  if (std::ranges::none_of(findings, by_timeline)) return;
  const predict::StreamReplayInput timeline = without_run_delay(input);
  RuleInput quiet = input;
  quiet.streams = &timeline;
  assume_streams(quiet, timeline);
  quiet.now_ms = quiet.assumed_step_ms;
  const std::vector<Finding> without = evaluate_rules(quiet, {});
  std::erase_if(findings,
                [&](const Finding& finding) { return by_timeline(finding) && !find(without, finding.id); });
}

std::vector<Finding> evaluate_all(const RuleInput& input, const std::vector<Finding>& except) {
  std::vector<Finding> findings = evaluate_rules(input, except);
  drop_what_only_delay_explains(input, findings);
  std::ranges::for_each(findings, bound_what_is_open);
  const double part = part_of_steps(input.process, input.rank);
  for (Finding& finding : findings) {
    name_seen_place(finding, input);
    if (!finding.is_of_the_run) finding.part_of_run = part;
  }
  return findings;
}

bool gains_alone(const Finding& finding) {
  return finding.is_complaint() && finding.prediction && !finding.is_conditional;
}

bool changes_what_follows(const Finding& finding) {
  return gains_alone(finding) && !finding.is_alternative;
}

// Of an option whose gain is open, the others are asked on top, too: of 40 workers none holds the rest back.
bool sets_what_follows(const Finding& finding) {
  return finding.is_complaint() && finding.too_wide && !finding.is_conditional && is_option(finding);
}

// Those that gain much applied alone and nothing on top of the others: one may be easier to do than the
// other.
void add_alternatives(std::vector<Finding>& ranked, std::vector<Finding> alone) {
  for (Finding& finding : alone) {
    if (!gains_alone(finding) || find(ranked, finding.id)) continue;
    if (finding.prediction->speedup.low < kLargeSpeedup || is_symptom_of_one(finding, ranked)) continue;
    finding.alone = finding.prediction;
    finding.is_alternative = true;
    ranked.push_back(std::move(finding));
  }
}

std::optional<predict::Prediction> all_together(const RuleInput& recorded, const Finding& last) {
  predict::Prediction together = *last.prediction;
  if (together.metric != "step_ms") return std::nullopt;
  together.now = recorded.now_ms;
  const auto speedup = [&](double ms) { return ms > 0 ? together.now / ms : 0; };
  together.speedup = {speedup(together.value.high), speedup(together.value.expected),
                      speedup(together.value.low)};
  return together;
}

// On top of a change whose gain is open: as a bound, of the recorded step where it gains there, too.
void give_on_its_own(Finding& finding, const Finding* by_itself) {
  give_as_bound(finding);
  if (!by_itself) return;
  if (by_itself->prediction)
    finding.ceiling_speedup = by_itself->prediction->speedup.high;
  else if (by_itself->ceiling_speedup)
    finding.ceiling_speedup = by_itself->ceiling_speedup;
}

// What remains of it without its cause, this recording does not tell. Anomaly mode waits for the GPU at each
// operation, and all that it cost was 1.35 times; its waits were said to gain 1.7 on their own.
void leave_to_next_recording(Finding& symptom) {
  if (!symptom.known_gain() && !symptom.ceiling_speedup) return;
  symptom.prediction.reset();
  symptom.too_wide.reset();
  symptom.alone.reset();
  symptom.ceiling_speedup.reset();
  symptom.timeline.reset();
  symptom.fix.snippet.clear();
  symptom.fix.summary = "Record again after the changes above before you change this: it may be their effect";
}

// A bound is not on top of the changes before it: of the same data stall it is another way to end it. Stages
// of one pipeline (a cache, a prefetch, cheaper maps), or remedies of the same read.
bool is_another_way(const RuleInput& input, const Finding& finding, const Finding& before) {
  const auto is_of_input = [](const Finding& each) {
    return each.is_complaint() && each.bottleneck == attribute::Bottleneck::Input && !is_option(each);
  };
  if (&finding == &before || finding.known_gain() || !is_of_input(finding) || !is_of_input(before))
    return false;
  const bool is_of_pipeline = !input.loader && input.configured_loader() && !before.known_gain();
  const bool is_of_place = !finding.fix.location.empty() && finding.fix.location == before.fix.location;
  return is_of_pipeline || is_of_place;
}

struct Chain {
  RankedFindings ranked;
  double end_ms = 0;  // the step with everything applied, also that whose gain is open
};

// `first`: the id of the finding to begin with; empty: the best.
Chain chain_from(const RuleInput& recorded, const std::vector<Finding>& alone, const std::string& first) {
  RankedFindings result;
  std::vector<Finding>& ranked = result.findings;
  Applied applied(recorded);
  bool is_open = false;  // what was applied: then so is what is predicted on top of it
  for (std::vector<Finding> open = alone; !open.empty();) {
    auto best = best_of(open);
    if (ranked.empty() && !first.empty()) best = std::ranges::find(open, first, &Finding::id);
    ranked.push_back(std::move(*best));
    open.erase(best);
    Finding& next = ranked.back();
    next.is_alternative =
        std::ranges::any_of(ranked, [&](const Finding& before) { return is_other_way(next, before); });
    const Finding* by_itself = find(alone, next.id);
    if (is_open && !next.is_conditional) give_on_its_own(next, by_itself);
    if (by_itself) next.alone = by_itself->prediction;
    if (is_symptom_of_one(next, ranked)) leave_to_next_recording(next);
    next.is_alternative |= std::ranges::any_of(
        ranked, [&](const Finding& before) { return is_another_way(recorded, next, before); });
    if (next.prediction && applied.count() > 0 && !next.is_conditional)
      next.prediction->assumptions.emplace_back("applied after: " + applied.words());
    if (!changes_what_follows(next) && !sets_what_follows(next)) continue;
    is_open |= !next.prediction;
    applied.apply(next);
    if (!is_open && applied.count() > 1) result.together = all_together(recorded, next);
    open = evaluate_all(applied.input(), ranked);
  }
  return {std::move(result), applied.input().now_ms};
}

const Finding* fastest_alone(const std::vector<Finding>& alone) {
  const Finding* fastest = nullptr;
  for (const Finding& finding : alone) {
    if (!changes_what_follows(finding) || finding.prediction->metric != "step_ms") continue;
    if (finding.may_have_to_stay || is_symptom_of_one(finding, alone)) continue;
    if (!fastest || finding.prediction->value.expected < fastest->prediction->value.expected)
      fastest = &finding;
  }
  return fastest;
}

// Two rules may end at the same thing to do, as at whole batches instead of single samples: once is enough.
void drop_repeated(std::vector<Finding>& ranked) {
  std::vector<Finding> kept;
  for (Finding& finding : ranked) {
    const bool is_said = finding.is_complaint() && std::ranges::any_of(kept, [&](const Finding& other) {
                           return other.ceiling_speedup && finding.ceiling_speedup &&
                                  other.fix.summary == finding.fix.summary &&
                                  other.fix.location == finding.fix.location && other.ranks == finding.ranks;
                         });
    if (!is_said) kept.push_back(std::move(finding));
  }
  ranked = std::move(kept);
}

}  // namespace

double expected_recovery(const Finding& finding) {
  if (!finding.is_complaint()) return 0;
  const std::optional<predict::Prediction>& predicted = finding.alone ? finding.alone : finding.known_gain();
  if (predicted) return counted_part(finding) * counted_on(*predicted, !finding.alone && !finding.prediction);
  return finding.bottleneck || finding.is_of_the_run
             ? counted_part(finding) * upper_bound(finding) * likely_part(finding)
             : 0;
}

bool is_worth_naming(const RuleInput& input, const Finding& finding) {
  if (!finding.is_complaint()) return true;
  if (!finding.prediction) return finding.ceiling_speedup.value_or(kLeastSpeedup) >= kLeastSpeedup;
  const predict::Estimate& speedup = finding.prediction->speedup;
  if (speedup.low >= 1) return speedup.expected >= kLeastSpeedup;
  if (input.loader && adds_workers(input, finding) && would_compete(*input.loader)) return false;
  return speedup.expected >= kLargeSpeedup;
}

std::vector<Finding>::iterator best_of(std::vector<Finding>& findings) {
  const auto is_candidate = [&](const Finding& finding) {
    return std::ranges::none_of(findings, [&](const Finding& other) {
      return is_symptom_of(finding, other) || counts_on(finding, other) || leaves_batch(other, finding) ||
             is_other_way(finding, other) ||
             (other.is_complaint() == finding.is_complaint() && finding.distorts.empty() &&
              is_better_known(other, finding));
    });
  };
  // What distorts the recording counts as much as what it may cause, and waits as much as the graph that they
  // rule out: eight of them gained 1.06x, and the graph of a step without them up to 2.5x.
  const auto strength_of = [&](const Finding& finding) {
    auto most = strength(finding);
    for (const Finding& other : findings)
      if (is_symptom_of(other, finding) || counts_on(other, finding)) most = std::max(most, strength(other));
    return most;
  };
  auto best = findings.end();
  for (auto finding = findings.begin(); finding != findings.end(); ++finding) {
    if (!is_candidate(*finding)) continue;
    const bool is_better = best == findings.end() || (finding->is_complaint() && !best->is_complaint()) ||
                           (finding->is_complaint() == best->is_complaint() &&
                            is_stronger(strength_of(*finding), strength_of(*best)));
    if (is_better) best = finding;
  }
  return best;
}

void sort_by_recovery(std::vector<Finding>& findings) {
  std::vector<Finding> sorted, alternatives;
  for (std::vector<Finding> open = std::move(findings); !open.empty();) {
    const auto best = best_of(open);
    (best->is_alternative ? alternatives : sorted).push_back(std::move(*best));
    open.erase(best);
  }
  std::ranges::move(alternatives, std::back_inserter(sorted));
  findings = std::move(sorted);
}

RankedFindings rank_findings(const RuleInput& recorded) {
  const std::vector<Finding> alone = evaluate_all(recorded, {});
  Chain chain = chain_from(recorded, alone, "");
  // Low ends decide the order; where that leads to less than one change alone is expected to bring, start
  // there.
  const auto fastest = fastest_alone(alone);
  if (fastest && chain.end_ms > fastest->prediction->value.expected * kLeastSpeedup) {
    Chain other = chain_from(recorded, alone, fastest->id);
    if (other.end_ms < chain.end_ms) chain = std::move(other);
  }
  RankedFindings& ranked = chain.ranked;
  add_alternatives(ranked.findings, alone);
  drop_repeated(ranked.findings);
  if (first_complaint(ranked.findings))
    std::erase_if(ranked.findings, [](const Finding& f) { return f.id == "healthy"; });
  return std::move(ranked);
}

}  // namespace gpuwatch::advise
