// SPDX-License-Identifier: Apache-2.0
// `analyze` and `predict` agree: whatever the job, no setting of the loader that the replay knows is faster
// by 3% than what the findings propose together, unless what forbids it is said. Nor is anything called "no
// gain" that gains.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "analyzer/advise/diagnose.h"
#include "analyzer/advise/rule.h"
#include "found.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using predict::LoaderSetting;
using test::LoaderJob;

// Two epochs of 50 batches; the beginning of the first one, and with it what workers made meanwhile, is
// warm-up. 64 workers on two full cores "may gain 140%" by that.
TEST(LongRun, HasNoStockFromBeforeTheRecordedSteps) {
  predict::LoaderReplayInput recorded;
  recorded.setting = {.workers = 2, .persistent = true};
  for (const bool is_counted : {false, true}) {
    predict::ReplayEpoch epoch{.is_counted = is_counted};
    epoch.batches.assign(50, predict::BatchCost{.service_ns = 100e6, .cpu_ns = 100e6, .think_ns = 5e6});
    recorded.epochs.push_back(epoch);
  }
  const auto counted = [&](int workers) {
    LoaderSetting setting = recorded.setting;
    setting.workers = workers;
    size_t count = 0;
    for (const predict::ReplayEpoch& epoch : in_the_long_run(recorded, setting).epochs)
      count += size_t(std::ranges::count_if(epoch.batches, &predict::BatchCost::counted));
    return count;
  };
  EXPECT_EQ(counted(2), 100u) << "four batches ahead are little of an epoch";
  EXPECT_EQ(counted(64), 50u);
  recorded.epochs[1].is_counted = false;  // no epoch began within the recorded steps: all that there is
  EXPECT_EQ(counted(64), 100u);
}

// With more batches ahead than an eighth of them: "Set prefetch_factor=4, 1.2x" where one worker made 67%.
TEST(LongRun, KeepsTheEndOfAnEpochInWhichOneWorkerHasNoDataLeft) {
  const test::Job job = test::make_two_files_and_one(60);
  const auto recording = predict::extract_loader(job.run, job.ranks.front());
  LoaderSetting setting = recording->setting;
  setting.prefetch_factor = 8;
  EXPECT_NEAR(predict::replay(in_the_long_run(*recording, setting), setting).step_ms, 10 * 2 / 3.0, 0.5);
}

// A third worker has one of the three files. Where the cores are full, equal parts for two would gain as
// little.
TEST(UnequalParts, AreForAsManyWorkers) {
  const test::Job job = test::make_two_files_and_one();
  const Found found(job, "dataloader-workers");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->fix.summary, "Set num_workers=3");
  ASSERT_TRUE(found->prediction);
  EXPECT_NEAR(found->prediction->value.expected, 4, 0.3);
  test::Job one_core = job;
  one_core.process().cpu_count = 2;
  for (model::Batch& batch : one_core.process().epochs[0].batches) batch.fetch_cpu_ns = batch.fetch.length();
  const Found split(one_core, "dataloader-workers");
  ASSERT_TRUE(split);
  EXPECT_EQ(split->title.substr(0, 62), "Data loading: one of 2 workers makes 67% of the batches, train");
  EXPECT_NE(split->fix.summary.find("Give each of the 2 workers an equal part"), std::string::npos);
}

struct RandomJob {
  LoaderJob wanted;
  std::vector<double> services, thinks;
  std::string words;

  explicit RandomJob(unsigned seed) {
    std::mt19937 random(seed);
    const auto one_of = [&](std::initializer_list<double> values) {
      return values.begin()[random() % values.size()];
    };
    wanted.workers = int(random() % 5);
    wanted.prefetch_factor = int(one_of({1, 2, 2, 4}));
    wanted.cpu_count = uint32_t(one_of({1, 2, 4, 8}));
    wanted.cpu_share = one_of({0, 0.1, 0.5, 1});
    wanted.batches = 120 + random() % 200;
    const double service = one_of({0.3, 3, 10, 40}), think = one_of({1, 5, 20});
    const double slow = one_of({1, 1, 5, 12}), every = one_of({5, 12, 20});
    const double spread = one_of({0, 0.3, 1});
    std::lognormal_distribution<double> varies(0, spread);
    for (size_t i = 0; i < wanted.batches; ++i) {
      services.push_back(service * varies(random) * (i % size_t(every) == 3 ? slow : 1));
      thinks.push_back(think);
    }
    wanted.service_ms = [this](size_t i) { return services[i]; };
    wanted.think_ms = [this](size_t i) { return thinks[i]; };
    words = fmt::format(
        "seed {}: {} workers x {}, {} cores, service {} ({} of CPU, {}x every {}, spread {}), think {}", seed,
        wanted.workers, wanted.prefetch_factor, wanted.cpu_count, service, wanted.cpu_share, slow, every,
        spread, think);
  }
  RandomJob(const RandomJob&) = delete;
};

// Of the time that training waits: a later batch is there already, as attribution finds it.
test::Job attributed(const LoaderJob& wanted) {
  test::Job job = test::make_loader_job(wanted);
  const std::vector<model::Batch>& batches = job.process().epochs[0].batches;
  double waited = 0, behind_others = 0;
  for (size_t i = 0; i < batches.size(); ++i) {
    const model::TimeSpan next = batches[i].next;
    model::Ns first_other = next.end;
    for (size_t later = i + 1; later < std::min(batches.size(), i + 16); ++later)
      if (batches[later].fetch.begin > 0) first_other = std::min(first_other, batches[later].fetch.end);
    waited += double(next.length());
    behind_others += double(next.end - std::clamp(first_other, next.begin, next.end));
  }
  const double wall = double(job.rank().wall_ns);
  const double all = std::min(0.99, waited / wall), behind = std::min(all, behind_others / wall);
  test::set_shares(job, {{Category::InputHeadOfLine, behind}, {Category::InputTransform, all - behind}});
  return job;
}

LoaderSetting with_all(const Diagnosis& diagnosis, LoaderSetting setting) {
  for (const Finding& finding : diagnosis.findings)
    if (finding.is_complaint() && !finding.is_alternative) apply(finding.fix.change, setting);
  setting.io_factor = 1;
  return setting;
}

// One option changed, or several.
size_t changes(const LoaderSetting& a, const LoaderSetting& b) {
  return size_t(a.workers != b.workers) + size_t(a.prefetch_factor != b.prefetch_factor) +
         size_t(a.in_order != b.in_order);
}

// What is said to gain and not proposed: "more than 2 workers (15% expected; not proposed: ...)".
struct Withheld {
  int more_workers_than = kMostWorkers, longer_than = 16;
  bool is_order = false, is_first_worker = false, is_several = false;

  explicit Withheld(const Diagnosis& diagnosis, const LoaderSetting& proposed) {
    for (const std::string& line : diagnosis.unproposed.may_gain) {
      if (line.starts_with("more than "))
        more_workers_than = std::min(more_workers_than, std::stoi(line.substr(10)));
      if (line.starts_with("num_workers=")) is_first_worker = true;
      if (line.starts_with("prefetch_factor=")) longer_than = proposed.prefetch_factor;
      is_several |= line.find("together") != line.npos;
      is_order |= line.starts_with("in_order");
    }
  }

  bool has(const LoaderSetting& setting, const LoaderSetting& proposed) const {
    return setting.workers > more_workers_than || setting.prefetch_factor > longer_than ||
           (is_several && changes(setting, proposed) > 1) ||
           (is_order && setting.in_order != proposed.in_order) || (is_first_worker && setting.workers > 0);
  }
};

std::vector<LoaderSetting> all_settings(const LoaderSetting& proposed) {
  std::vector<LoaderSetting> settings;
  for (const int workers : {proposed.workers, 0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}) {
    for (const int prefetch : {proposed.prefetch_factor, 2, 4, 8, 16}) {
      for (const bool in_order : {true, false}) {
        LoaderSetting setting = proposed;
        setting.workers = workers;
        setting.prefetch_factor = prefetch;
        setting.in_order = in_order;
        settings.push_back(setting);
      }
    }
  }
  return settings;
}

std::string words(const LoaderSetting& setting) {
  return fmt::format("{} x {}{}", setting.workers, setting.prefetch_factor,
                     setting.in_order ? "" : " out of order");
}

class LoaderAgreement : public testing::TestWithParam<unsigned> {};

TEST_P(LoaderAgreement, OfWhatIsProposedAndWhatThePredictionKnows) {
  const RandomJob random(GetParam());
  const test::Job job = attributed(random.wanted);
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  const auto recording = predict::extract_loader(job.run, job.ranks[0]);
  ASSERT_TRUE(recording);
  if (predict::check(*recording).trust() == predict::Trust::kCeilingOnly) return;
  const LoaderSetting proposed = with_all(diagnosis, recording->setting);
  const double proposed_ms = predict::replay(in_the_long_run(*recording, proposed), proposed).step_ms;
  const Withheld withheld(diagnosis, proposed);
  std::string said;
  for (const Finding& finding : diagnosis.findings)
    said += fmt::format("\n  {}: {} {}", finding.id, finding.fix.summary,
                        finding.prediction ? fmt::format("{:.3f}", finding.prediction->value.expected) : "");
  for (const std::string& line : diagnosis.unproposed.no_gain) said += "\n  no gain: " + line;
  for (const std::string& line : diagnosis.unproposed.may_gain) said += "\n  may gain: " + line;
  for (const LoaderSetting& setting : all_settings(proposed)) {
    // More workers than the cores carry are never proposed; what their crowd replays as is mostly chance.
    const bool is_crowd = setting.workers * random.wanted.cpu_share > random.wanted.cpu_count;
    if (withheld.has(setting, proposed) || (is_crowd && setting.workers != proposed.workers)) continue;
    // Findings are found one after the other: several changes at once may lead further where batches vary
    // much.
    constexpr double kSeveral = 1.35;
    constexpr double kByChance = 1.02;  // neighboring settings hit other batches
    const double allowed = changes(setting, proposed) > 1 ? kSeveral : kLeastSpeedup * kByChance;
    const double ms = predict::replay(in_the_long_run(*recording, setting), setting).step_ms;
    ASSERT_LE(proposed_ms, ms * allowed)
        << random.words << "\n  now " << recording->measured_step_ms << ", proposed " << words(proposed)
        << " " << proposed_ms << ", but " << words(setting) << " " << ms << said;
  }
}

INSTANTIATE_TEST_SUITE_P(RandomJobs, LoaderAgreement, testing::Range(1u, 41u));

}  // namespace
}  // namespace gpuwatch::advise
