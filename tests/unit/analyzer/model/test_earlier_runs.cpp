// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/earlier_runs.h"

#include <gtest/gtest.h>

#include "analyzer/io/trace_set.h"
#include "analyzer/model/build.h"
#include "run_builder.h"

namespace gpuwatch {
namespace {

using model::RecordedFile;
using Files = std::vector<size_t>;

RecordedFile file(const char* run_id, uint64_t begin_ns, uint64_t end_ns, const char* rank = "host -1",
                  const char* script = "train.py", bool may_train = true) {
  return {run_id, script, rank, begin_ns, end_ns, may_train};
}

TEST(EarlierRuns, TheLastOfAScriptIsMeant) {
  EXPECT_EQ(model::files_of_meant_run({file("b", 200, 210), file("a", 100, 190), file("b", 201, 209)}),
            (Files{0, 2}));
}

TEST(EarlierRuns, OfSeveralScriptsTheLongestThatMayTrain) {
  EXPECT_EQ(model::files_of_meant_run({file("a", 100, 400, "host -1", "prepare.py", false),
                                       file("b", 400, 600), file("c", 600, 650, "host -1", "evaluate.py")}),
            (Files{1}));
}

TEST(EarlierRuns, RanksThatWereToldNoCommonRunStayTogether) {
  EXPECT_EQ(model::files_of_meant_run({file("a", 100, 200, "host 0"), file("b", 101, 201, "host 1")}),
            (Files{0, 1}));
  // The clocks of two machines may be hours apart.
  EXPECT_EQ(model::files_of_meant_run({file("a", 100, 200, "one 0"), file("b", 900, 999, "two 1")}),
            (Files{0, 1}));
}

TEST(EarlierRuns, WhatOverlapsOrGoesOnStaysTogether) {
  EXPECT_EQ(model::files_of_meant_run({file("a", 100, 200), file("b", 150, 160)}), (Files{0, 1}));
  EXPECT_EQ(model::files_of_meant_run(
                {file("elastic-job.0", 100, 200, "host 0"), file("elastic-job.1", 300, 400, "host 0")}),
            (Files{0, 1}));
}

TEST(EarlierRuns, WhatIsNotKnownIsNotLeftOut) {
  EXPECT_EQ(model::files_of_meant_run({file("a", 0, 0), file("b", 100, 200)}), (Files{0, 1}));
  EXPECT_EQ(model::files_of_meant_run({file("", 10, 20), file("b", 100, 200)}), (Files{0, 1}));
}

TEST(EarlierRuns, TwoRunsInOneFolder) {
  const test::ScratchDirectory directory;
  const auto save = [&](const char* name, const char* run_id, uint64_t begin_ns, uint32_t pid) {
    test::TraceBuilder trace;
    trace.process({.pid = pid, .start_realtime_ns = begin_ns, .run_id = run_id});
    trace.clock(0, 1000, 1000, begin_ns);
    trace.clock(0, 900'000, 900'000, begin_ns + 899'000);
    trace.save(directory / name);
  };
  save("first.gwt", "run-1", 5'000'000'000, 100);
  save("second.gwt", "run-2", 9'000'000'000, 200);
  const auto run = model::build_run(io::find_traces({directory.path().string()}));
  ASSERT_EQ(run.processes.size(), 1u);
  EXPECT_EQ(run.processes[0].pid, 200u);
  EXPECT_EQ(run.run_id, "run-2");
  EXPECT_NE(run.other_runs.find("several runs"), std::string::npos);
  EXPECT_NE(run.other_runs.find("first.gwt"), std::string::npos);
  const auto both = model::build_run(
      io::find_traces({(directory / "first.gwt").string(), (directory / "second.gwt").string()}));
  EXPECT_EQ(both.processes.size(), 2u);
  EXPECT_EQ(both.other_runs, "");
}

}  // namespace
}  // namespace gpuwatch
