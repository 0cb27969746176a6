// SPDX-License-Identifier: Apache-2.0
// What the report says of changes that it does not propose.
#include <gtest/gtest.h>

#include <algorithm>

#include "analyzer/advise/unproposed.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::advise {
namespace {

// Two workers that mostly sleep, beside training that computes on both cores, of which others take a half.
// The rest of its time it waits for them.
constexpr double kComputing = 0.55;
struct Crowded {
  test::Job job;
  std::optional<predict::LoaderReplayInput> loader;
  Crowded()
      : job(test::make_loader_job({.workers = 2,
                                   .batches = 200,
                                   .cpu_count = 2,
                                   .cpu_share = 0.1,
                                   .service_ms = [](size_t) { return 200.0; },
                                   .think_ms = [](size_t) { return 90.0; }})),
        loader(predict::extract_loader(job.run, job.rank())) {
    loader->cores = 1.5;
    for (predict::ReplayEpoch& epoch : loader->epochs)
      for (predict::BatchCost& batch : epoch.batches) batch.think_ns *= kComputing;
    loader->think_cores = 2;
    loader->think_cores_known = true;
  }
  UnproposedChanges unproposed(const std::vector<Finding>& findings = {}) {
    RuleInput input{.run = job.run, .rank = job.ranks.front(), .process = job.run.processes.front()};
    input.loader = &*loader;
    input.loader_check = predict::check(*loader);
    assume_nothing(input);
    return unproposed_changes(input, findings);
  }
};

bool says(const std::vector<std::string>& lines, std::string_view words) {
  return std::ranges::any_of(lines, [&](const std::string& line) { return line.find(words) != line.npos; });
}

// Next to a busy neighbor more workers were "no gain (<1%)", by the middle of a range of 35 to 120 ms.
TEST(Unproposed, WhatARangeLeavesOpenIsNotNoGain) {
  const UnproposedChanges changes = Crowded().unproposed();
  EXPECT_FALSE(says(changes.no_gain, "more than 2 workers"));
  EXPECT_TRUE(says(changes.may_gain, "more than 2 workers (1% expected, 1.9x at best"));
  EXPECT_FALSE(says(changes.may_gain, "prefetch_factor"));
}

// Of four workers the range is as wide as of eight: what is open of both is no gain of more.
TEST(Unproposed, WhatIsOpenOfBothSettingsIsNoGain) {
  Finding workers;
  workers.severity = Severity::kMajor;
  workers.fix.change = LoaderChange{LoaderOption::kNumWorkers, 4};
  const UnproposedChanges changes = Crowded().unproposed({workers});
  EXPECT_TRUE(says(changes.no_gain, "more than 4 workers (1%"));
  EXPECT_FALSE(says(changes.may_gain, "more than 4 workers"));
}

}  // namespace
}  // namespace gpuwatch::advise
