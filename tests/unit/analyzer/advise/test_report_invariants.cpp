// SPDX-License-Identifier: Apache-2.0
// What every report must keep, whatever the job: checked on random jobs, so that it does not hold only where
// a rule was developed. Shares are drawn independently of the calls: the rules must cope with any mixture.
#include <gtest/gtest.h>

#include <random>

#include "analyzer/advise/diagnose.h"
#include "analyzer/advise/rule.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::advise {
namespace {

using attribute::Bottleneck;
using attribute::Category;

constexpr double kRounding = 1.001;

class RandomJob {
 public:
  explicit RandomJob(unsigned seed) : random_(seed) {
    job = below(2) ? loader_job() : test::make_device_job(actions(), 30 + below(40));
    draw_shares();
  }
  test::Job job;

 private:
  uint32_t below(uint32_t limit) { return uint32_t(random_() % limit); }
  double between(double low, double high) { return std::uniform_real_distribution<>(low, high)(random_); }

  test::Job loader_job() {
    const double service_ms = between(1, 60), spread = between(0, 1);
    std::vector<double> services(100);
    for (double& ms : services) ms = service_ms * (1 + spread * between(-1, 1));
    const double think_ms = between(0.5, 40);
    test::Job made = test::make_loader_job({.workers = int(below(5)),
                                            .prefetch_factor = 1 + int(below(4)),
                                            .batches = services.size(),
                                            .cpu_count = 1 + below(16),
                                            .cpu_share = between(0, 1),
                                            .service_ms = [&](size_t i) { return services[i]; },
                                            .think_ms = [&](size_t) { return think_ms; }});
    waiting_ = made.rank().share(Category::InputTransform);
    return made;
  }

  std::vector<test::Action> actions() {
    std::vector<test::Action> step(1 + below(12));
    for (test::Action& action : step) {
      const uint32_t kind = below(6);
      action.gap_us = between(0, below(4) ? 30 : 3000);
      action.caller = 0x1000 + below(3);
      if (kind == 0) {
        action.op_class = trace::OpClass::Sync;
        action.waits = true;
        continue;
      }
      action.device_us = between(5, below(3) ? 100 : 4000);
      if (kind > 2) continue;
      action.op_class = trace::OpClass::Copy;
      action.kind = below(2) ? trace::RecordKind::CopyH2D : trace::RecordKind::CopyD2H;
      action.pageable = action.waits = below(2);
      action.bytes = 1 + below(1 << 22);
    }
    return step;
  }

  // What the loader's schedule says of waiting stays; the rest of the step is cut at random.
  void draw_shares() {
    constexpr Category kAny[] = {Category::Sync,        Category::LaunchDispatch, Category::HostCompute,
                                 Category::CopyStaging, Category::CopyH2D,        Category::CommUnsplit,
                                 Category::Checkpoint,  Category::Phase,          Category::Unknown};
    double left = 1 - waiting_;
    std::pair<Category, double> drawn[4] = {{Category::InputTransform, waiting_}};
    for (size_t i = 1; i < std::size(drawn); ++i) {
      drawn[i] = {kAny[below(std::size(kAny))], below(2) ? between(0, 0.5) * left : 0};
      left -= drawn[i].second;
    }
    test::set_shares(job, {drawn[0], drawn[1], drawn[2], drawn[3]});
  }

  std::mt19937 random_;
  double waiting_ = 0;
};

bool says(const Diagnosis& diagnosis, std::string_view words) {
  return std::ranges::any_of(
      diagnosis.limits, [&](const Limit& limit) { return limit.sentence.find(words) != std::string::npos; });
}

double covered(const Diagnosis& diagnosis, Category category) {
  double share = 0;
  for (const Finding& finding : diagnosis.findings)
    if (finding.is_complaint() && finding.explains.contains(category)) share += finding.lost_share;
  return share;
}

void expect_all_explained(const test::Job& job, const Diagnosis& diagnosis) {
  for (size_t i = 0; i < attribute::kCategoryCount; ++i) {
    const auto category = static_cast<Category>(i);
    const attribute::CategoryInfo& info = attribute::info(category);
    if (info.bottleneck == Bottleneck::Compute || info.bottleneck == Bottleneck::Unobserved) continue;
    if (job.ranks[0].share(category) < 0.05 ||
        2 * covered(diagnosis, category) >= job.ranks[0].share(category))
      continue;
    EXPECT_TRUE(says(diagnosis, std::string("of each step: ") + std::string(info.words))) << info.name;
  }
}

void expect_verdict_of_first_finding(const Diagnosis& diagnosis) {
  const Finding* first = first_complaint(diagnosis.findings);
  if (!first || !diagnosis.verdict.bottleneck) return;
  if (first->bottleneck == diagnosis.verdict.bottleneck) return;
  EXPECT_TRUE(says(diagnosis, "Change 1 is not about"))
      << first->id << " under " << diagnosis.verdict.sentence;
}

// Between two chains of replays the order of rounding differs; a percent of the step is what a rule calls
// none.
void expect_no_loss_together(const Diagnosis& diagnosis) {
  if (!diagnosis.together) return;
  for (const Finding& finding : diagnosis.findings)
    if (finding.alone && !finding.is_conditional && finding.alone->metric == "step_ms") {
      EXPECT_LE(diagnosis.together->value.expected, finding.alone->value.expected * kLeastSpeedup)
          << finding.id;
    }
}

void expect_possible_gains(const Diagnosis& diagnosis) {
  for (const Finding& finding : diagnosis.findings) {
    EXPECT_GE(finding.ceiling_speedup.value_or(1), 1) << finding.id;
    if (!finding.prediction) continue;
    const predict::Estimate& value = finding.prediction->value;
    EXPECT_LE(value.low, value.expected * kRounding) << finding.id;
    EXPECT_LE(value.expected, value.high * kRounding) << finding.id;
    EXPECT_GE(value.low, 0) << finding.id;
    EXPECT_LE(value.high - value.low, kWidestPrediction.value * value.expected * kRounding) << finding.id;
    EXPECT_GE(finding.lost_share, 0) << finding.id;
    EXPECT_LE(finding.lost_share, 1) << finding.id;
  }
  EXPECT_GE(diagnosis.verdict.ceiling_speedup, 1);
}

void expect_healthy_alone(const Diagnosis& diagnosis) {
  if (diagnosis.verdict.id != "healthy") return;
  for (const Finding& finding : diagnosis.findings)  // what others took is no complaint about the job
    EXPECT_TRUE(!finding.is_complaint() || finding.bottleneck == Bottleneck::Machine) << finding.id;
}

class Report : public testing::TestWithParam<unsigned> {};

TEST_P(Report, KeepsItsPromises) {
  const RandomJob random(GetParam());
  const Diagnosis diagnosis = diagnose(random.job.run, random.job.ranks);
  expect_all_explained(random.job, diagnosis);
  expect_verdict_of_first_finding(diagnosis);
  expect_no_loss_together(diagnosis);
  expect_possible_gains(diagnosis);
  expect_healthy_alone(diagnosis);
}

INSTANTIATE_TEST_SUITE_P(Random, Report, testing::Range(0u, 300u));

}  // namespace
}  // namespace gpuwatch::advise
