// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/step_rows.h"

#include <gtest/gtest.h>

#include "analyzer/advise/place_words.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::report {
namespace {

using attribute::Category;

// What stands next to "compute" of a job on the CPU, of whose ten stack samples so many show `most`.
std::string compute_row(size_t count, const char* most, const char* other = "") {
  test::Job job = test::make_loader_job({.workers = 0, .batches = 100});
  test::set_shares(job, {});
  const model::Ns begin = job.rank().steps.front().step.begin, end = job.rank().steps.back().step.end;
  job.rank().slices = {{begin, end, Category::Compute, 0}};
  job.run.texts = {{71, most}, {72, other}};
  for (size_t i = 0; i < 10; ++i)
    job.process().threads[0].worker_stacks.push_back(
        {begin + model::Ns(i) * (end - begin) / 10, 1'000'000, i < count ? 71u : 72u, job.process().pid});
  const advise::Diagnosis diagnosis;
  for (const StepRow& row : step_rows({job.run, job.ranks, diagnosis, ""}, job.rank()))
    if (row.label == "compute") return row.causes;
  return "no such row";
}

TEST(StepRows, SayAPlaceAsFindingsDo) {
  EXPECT_EQ(
      compute_row(6, "/home/a/train.py:77 main", "/home/a/net.py:28 Net.forward\n/home/a/train.py:77 main"),
      "60% in main (train.py:77), 40% in Net.forward (net.py:28)");
  EXPECT_EQ(advise::short_location("/tmp/ipykernel_4711/2718281828.py:5"), "notebook cell, line 5");
}

// A script without functions is one place.
TEST(StepRows, SayTheLinesOfAFunction) {
  EXPECT_EQ(compute_row(7, "/home/a/train.py:11 <module>", "/home/a/train.py:16 <module>"),
            "70% in <module> (train.py:11), 30% in line 16");
  EXPECT_EQ(compute_row(10, "/home/a/train.py:11 <module>"), "100% in <module> (train.py:11)");
}

// Where the script has one line, its libraries say more, but not those that run what is compiled.
TEST(StepRows, GoIntoALibraryThatTrains) {
  EXPECT_EQ(compute_row(10, "/v/site-packages/stable_baselines3/ppo.py:9 PPO.train\n/home/a/train.py:5 main"),
            "100% in PPO.train (ppo.py:9)");
  EXPECT_EQ(compute_row(10,
                        "/v/site-packages/tensorflow/python/eager/execute.py:53 quick_execute\n"
                        "/home/a/train.py:85 main"),
            "100% in main (train.py:85)");
}

}  // namespace
}  // namespace gpuwatch::report
