// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/job_gains.h"

#include <algorithm>
#include <set>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/rule.h"
#include "analyzer/predict/prediction.h"

namespace gpuwatch::advise {
namespace {

using attribute::CategorySet;
using attribute::GroupMember;
using attribute::OwnWork;
using attribute::RankAttribution;
using attribute::StepGroup;
using predict::Estimate;
using predict::Prediction;

constexpr double Estimate::*kBounds[] = {&Estimate::low, &Estimate::expected, &Estimate::high};

// A finding as each member has it, null where it has none.
using Carriers = std::vector<const Finding*>;
using Predictions = std::vector<const Prediction*>;

// The own work of all members, changed by one finding after the other.
class Job {
 public:
  Job(const StepGroup& group, const std::vector<RankAttribution>& rows) : group_(&group), rows_(&rows) {
    for (const GroupMember& member : group.members)
      for (OwnWork& work : works_) work.push_back(member.own_ms);
  }

  double step_ms() const { return attribute::mean_step_ms(works_[1]); }

  // What follows starts from the expected work, as it does on one rank.
  void go_on_from_expected() { works_[0] = works_[2] = works_[1]; }

  // The step with the change, which is predicted for some of the members and is about `explains`.
  Estimate apply(const Predictions& predicted, size_t base, CategorySet explains) {
    Estimate step;
    for (size_t bound = 0; bound < std::size(kBounds); ++bound) {
      const auto saved = [&](size_t m) { return predicted[m]->now - predicted[m]->value.*kBounds[bound]; };
      const double of_base = explained_ms(base, explains);
      const bool acts_on_all = !group_->late || predicted[group_->late->member];
      const double part = acts_on_all && of_base > 0 ? std::clamp(saved(base) / of_base, 0.0, 1.0) : 0;
      for (size_t m = 0; m < predicted.size(); ++m) {
        const double own = explained_ms(m, explains);
        const double cut = !predicted[m] ? part : own > 0 ? std::min(1.0, saved(m) / own) : 0;
        shorten(works_[bound][m], m, explains, cut, predicted[m] ? saved(m) - cut * own : 0);
      }
      step.*kBounds[bound] = attribute::mean_step_ms(works_[bound]);
    }
    step.low = std::min(step.low, step.expected * (1 - predict::kRunToRun));
    step.high = std::max(step.high, step.expected * (1 + predict::kRunToRun));
    return step;
  }

  // The shortest step if the finding's time were gone on all members, and its carriers had nothing else.
  double least_step_ms(const Carriers& carriers, CategorySet explains) const {
    OwnWork work = works_[1];
    const bool acts_on_all = !group_->late || carriers[group_->late->member];
    for (size_t m = 0; m < carriers.size(); ++m) {
      if (acts_on_all) shorten(work[m], m, explains, 1, 0);
      if (!carriers[m]) continue;
      const double ceiling = carriers[m]->ceiling_speedup.value_or(1);
      for (size_t step = 0; step < work[m].size(); ++step)
        work[m][step] = std::min(work[m][step], works_[1][m][step] / std::max(ceiling, 1.0));
    }
    return attribute::mean_step_ms(work);
  }

 private:
  double explained_ms(size_t m, size_t step, CategorySet explains) const {
    const GroupMember& member = group_->members[m];
    const attribute::CategoryTimes& times = (*rows_)[member.row].steps[member.steps[step]].times;
    double sum = 0;
    for (size_t i = 0; i < attribute::kCategoryCount; ++i)
      if (explains.contains(static_cast<attribute::Category>(i))) sum += double(times[i]);
    return sum / 1e6;
  }
  double explained_ms(size_t m, CategorySet explains) const {
    double sum = 0;
    for (size_t step = 0; step < group_->steps; ++step) sum += explained_ms(m, step, explains);
    return sum / double(group_->steps);
  }
  // By a part of what the finding is about, where a step has it, and by the same in every step.
  void shorten(std::vector<double>& own_ms, size_t m, CategorySet explains, double part,
               double rest_ms) const {
    for (size_t step = 0; step < own_ms.size(); ++step)
      own_ms[step] = std::max(0.0, own_ms[step] - part * explained_ms(m, step, explains) - rest_ms);
  }

  const StepGroup* group_;
  const std::vector<RankAttribution>* rows_;
  OwnWork works_[std::size(kBounds)];  // of the low, the expected and the high end
};

bool is_of_steps(const std::optional<Prediction>& prediction) {
  return prediction && prediction->metric == "step_ms";
}

using GainOf = const std::optional<Prediction>& (*)(const Finding&);

// Too wide a range of one rank may be narrow where the others' own work ends what the job gains: two or three
// workers for a late rank were 51 to 71 ms of its own step, and 58 to 71 of the job's.
const std::optional<Prediction>& gain_of_rank(const Finding& finding) {
  return finding.is_wide_range ? finding.known_gain() : finding.prediction;
}
const std::optional<Prediction>& gain_alone(const Finding& finding) {
  return finding.alone;
}

Prediction from_steps(Prediction prediction, double now_ms, double before_ms, Estimate after_ms) {
  prediction.now = now_ms;
  for (const auto bound : kBounds) {
    const double after = before_ms > 0 ? now_ms * (after_ms.*bound) / before_ms : now_ms;
    prediction.value.*bound = after;
  }
  const auto speedup = [&](double ms) { return ms > 0 ? now_ms / ms : 1; };
  prediction.speedup = {speedup(prediction.value.high), speedup(prediction.value.expected),
                        speedup(prediction.value.low)};
  return prediction;
}

class WholeJob {
 public:
  WholeJob(const StepGroup& group, const std::vector<RankAttribution>& rows, std::vector<RankFindings> ranks)
      : group_(group), rows_(rows), ranks_(std::move(ranks)), job_(group, rows) {}

  JobFindings settle() {
    std::set<std::string> known;
    for (const RankFindings& rank : ranks_)
      for (const Finding& finding : rank.findings)
        if (known.insert(finding.id).second) add(finding.id);
    std::ranges::stable_partition(result_.findings, [](const Finding& f) { return !f.is_alternative; });
    std::ranges::stable_partition(result_.findings, &Finding::is_complaint);
    return std::move(result_);
  }

 private:
  // As the one in front has it, else the one that loses most by it.
  size_t base_of(const Carriers& carriers) const {
    const size_t front = index_of(ranks_.front().row);
    size_t base = front;
    for (size_t m = 0; m < carriers.size(); ++m)
      if (!carriers[front] && carriers[m] &&
          (!carriers[base] || carriers[m]->lost_share > carriers[base]->lost_share))
        base = m;
    return base;
  }

  size_t index_of(size_t row) const {
    return static_cast<size_t>(attribute::member_of(group_, row) - group_.members.data());
  }

  void add(const std::string& id) {
    Carriers carriers(group_.members.size());
    std::vector<uint32_t> numbers;
    for (const RankFindings& rank : ranks_)
      if (const Finding* own = find(rank.findings, id)) {
        carriers[index_of(rank.row)] = own;
        numbers.insert(numbers.end(), own->ranks.begin(), own->ranks.end());
      }
    const size_t base = base_of(carriers);
    Finding finding = *carriers[base];
    std::ranges::sort(numbers);
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    finding.ranks = numbers;
    if (gains_the_job(finding, carriers, base)) result_.findings.push_back(std::move(finding));
  }

  bool gains_the_job(Finding& finding, const Carriers& carriers, size_t base) {
    const bool is_about_steps = !finding.is_of_the_run && !finding.verdict && finding.is_complaint();
    if (!is_about_steps) return true;
    if (is_of_steps(finding.alone))
      finding.alone = alone(*finding.alone, carriers, base, finding.explains, gain_alone);
    if (finding.ceiling_speedup) limit_bound(finding, carriers);
    if (is_of_steps(gain_of_rank(finding))) return predict(finding, carriers, base);
    // Of another step than the recorded one: it gains the job what it gains the rank that is waited for.
    if (finding.prediction) return !group_.late || carriers[group_.late->member];
    return finding.ceiling_speedup.value_or(kLeastSpeedup) >= kLeastSpeedup;
  }

  void limit_bound(Finding& finding, const Carriers& carriers) const {
    const double least_ms = job_.least_step_ms(carriers, finding.explains);
    if (least_ms > 0)
      finding.ceiling_speedup = std::min(*finding.ceiling_speedup, std::max(1.0, job_.step_ms() / least_ms));
  }

  static Predictions predictions_of(const Carriers& carriers, GainOf gain) {
    Predictions result;
    for (const Finding* carrier : carriers)
      result.push_back(carrier && is_of_steps(gain(*carrier)) ? &*gain(*carrier) : nullptr);
    return result;
  }

  Prediction alone(const Prediction& prediction, const Carriers& carriers, size_t base, CategorySet explains,
                   GainOf gain) const {
    Job recorded(group_, rows_);
    const double before = recorded.step_ms();
    return from_steps(prediction, prediction.now, before,
                      recorded.apply(predictions_of(carriers, gain), base, explains));
  }

  bool predict(Finding& finding, const Carriers& carriers, size_t base) {
    if (finding.is_wide_range) finding.prediction = std::exchange(finding.too_wide, std::nullopt);
    if (finding.is_conditional || finding.is_alternative) {
      finding.prediction = alone(*finding.prediction, carriers, base, finding.explains, gain_of_rank);
      const bool is_worth_it = finding.prediction->speedup.expected >= kLeastSpeedup;
      bound_what_is_open(finding);
      return is_worth_it;
    }
    Job after = job_;
    const double before = job_.step_ms();
    const double now = applied_ == 0 ? finding.prediction->now : now_ms_;
    const Estimate step = after.apply(predictions_of(carriers, gain_of_rank), base, finding.explains);
    finding.prediction = from_steps(*finding.prediction, now, before, step);
    if (finding.prediction->speedup.expected < kLeastSpeedup) return false;
    bound_what_is_open(finding);
    if (is_open_) give_as_bound(finding);
    is_open_ |= !finding.prediction;  // what was predicted on top of it on one rank is open, too
    if (is_open_) return true;
    say_assumptions(*finding.prediction, base);
    words_ += (words_.empty() ? "" : ", ") + finding.fix.summary;
    if (applied_++ == 0) first_ms_ = now;
    now_ms_ = finding.prediction->value.expected;
    job_ = after;
    job_.go_on_from_expected();
    if (applied_ > 1) {
      const auto scaled = [&](double ms) { return ms > 0 ? first_ms_ / ms : 1; };
      result_.together = *finding.prediction;
      result_.together->now = first_ms_;
      const Estimate& value = result_.together->value;
      result_.together->speedup = {scaled(value.high), scaled(value.expected), scaled(value.low)};
    }
    return true;
  }

  void say_assumptions(Prediction& prediction, size_t base) const {
    prediction.assumptions.emplace_back("of the whole job, whose step is that of its slowest rank");
    if (applied_ > 0 && base != index_of(ranks_.front().row))
      prediction.assumptions.emplace_back("applied after: " + words_);
  }

  const StepGroup& group_;
  const std::vector<RankAttribution>& rows_;
  std::vector<RankFindings> ranks_;
  Job job_;
  JobFindings result_;
  std::string words_;
  size_t applied_ = 0;
  bool is_open_ = false;
  double first_ms_ = 0, now_ms_ = 0;
};

}  // namespace

JobFindings for_whole_job(const StepGroup& group, const std::vector<RankAttribution>& rows,
                          std::vector<RankFindings> ranks) {
  return WholeJob(group, rows, std::move(ranks)).settle();
}

predict::Prediction for_whole_job(const StepGroup& group, const std::vector<RankAttribution>& rows,
                                  size_t row, const predict::Prediction& prediction) {
  const auto member = static_cast<size_t>(attribute::member_of(group, row) - group.members.data());
  Job job(group, rows);
  const double before = job.step_ms();
  Predictions predicted(group.members.size());
  predicted[member] = &prediction;
  return from_steps(prediction, prediction.now, before,
                    job.apply(predicted, member, attribute::Bottleneck::Input));
}

}  // namespace gpuwatch::advise
