// SPDX-License-Identifier: Apache-2.0
// A trace from anybody must not crash the analyzer, hang it or eat its memory: thousands of damaged
// variants of a trace that uses every table and record. Meant to run under the sanitizers; without
// them it still checks that memory stays bounded and that only UserError comes out. tests/fuzz holds
// the open-ended version, and report/test_damaged_traces.cpp goes on to the report.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "analyzer/io/user_error.h"
#include "analyzer/model/steps.h"
#include "run_builder.h"
#include "tests/unit/analyzer/damaged_trace.h"

namespace gpuwatch::model {
namespace {

using test::a_trace_with_everything;
using test::mutate;

size_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss) << 10;
}

class MutationTest : public test::RunTest {};

TEST_F(MutationTest, TheUnharmedTraceIsComplete) {
  test::write_file(directory_ / "a.gwt", a_trace_with_everything());
  const auto run = build_run(io::find_traces({directory_.path().string()}));
  EXPECT_TRUE(run.damage.empty());
  EXPECT_EQ(run.kernels_matched, 30u);
  EXPECT_EQ(run.processes[0].epochs.at(0).batches.size(), 30u);
  EXPECT_EQ(find_steps(run, run.processes[0]).steps.size(), 30u);
}

TEST_F(MutationTest, DamagedTracesAreReadOrRefused) {
  const auto original = a_trace_with_everything();
  const auto path = directory_ / "a.gwt";
  const size_t before = peak_rss_bytes();
  std::mt19937 random(20240601);
  size_t refused = 0, damaged = 0, unharmed = 0;
  for (int round = 0; round < 4000; ++round) {
    auto bytes = original;
    mutate(bytes, random);
    test::write_file(path, bytes);
    try {
      const auto run = build_run(io::find_traces({path.string()}));
      for (const auto& process : run.processes) {
        const auto series = find_steps(run, process);
        for (const auto& step : series.steps) ASSERT_LE(step.begin, step.end);
        for (const auto& thread : process.threads) {
          for (const auto& call : thread.calls) {
            ASSERT_LE(call.begin, call.end);
            ASSERT_LT(call.operation, run.operations.size());
          }
        }
        for (const auto& epoch : process.epochs) {
          for (const auto& batch : epoch.batches)
            ASSERT_TRUE(batch.worker == kNone || batch.worker < epoch.workers.size());
        }
      }
      ++(run.damage.empty() ? unharmed : damaged);
    } catch (const io::UserError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100u) << "the mutations reach the header";
  EXPECT_GT(damaged, 1000u) << "and the frames";
  EXPECT_GT(unharmed, 100u) << "and plain values";
  // The sanitizers keep freed memory for a while; without them a round needs a few MiB.
#if !defined(__SANITIZE_ADDRESS__)
  EXPECT_LT(peak_rss_bytes() - before, 64u << 20);
#else
  (void)before;
#endif
}

}  // namespace
}  // namespace gpuwatch::model
