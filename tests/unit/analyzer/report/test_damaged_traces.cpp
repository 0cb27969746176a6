// SPDX-License-Identifier: Apache-2.0
// From a damaged trace to its reports: attribution, replays and rules get times, counts and ids of any size.
// What is asserted is what every report promises; above all this is for the sanitizers, and must end. make
// fuzz damages traces of real runs.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "analyzer/advise/diagnose.h"
#include "analyzer/io/user_error.h"
#include "analyzer/model/build.h"
#include "analyzer/report/report.h"
#include "analyzer/report/step_times.h"
#include "tests/unit/analyzer/damaged_trace.h"
#include "tests/unit/analyzer/trace_builder.h"

namespace gpuwatch::report {
namespace {

// How many ranks the trace has; whatever it says, the report adds up.
size_t report_on(const std::filesystem::path& path) {
  const model::Run run = model::build_run(std::vector<std::string>{path.string()});
  const std::vector<attribute::RankAttribution> ranks = attribute::attribute(run);
  for (const attribute::RankAttribution& rank : ranks)
    EXPECT_EQ(std::accumulate(rank.times.begin(), rank.times.end(), model::Ns{0}), rank.wall_ns);
  const advise::Diagnosis diagnosis = advise::diagnose(run, ranks);
  const Report report{run, ranks, diagnosis, "1"};
  EXPECT_FALSE(json(report).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).empty());
  for (const attribute::RankAttribution& rank : ranks)
    EXPECT_EQ(step_times(run.processes.at(rank.process), rank, 0)["begin_ns"].size(), rank.steps.size());
  EXPECT_FALSE(text(report, {}).empty());
  return ranks.size();
}

TEST(DamagedTraces, LeaveAReportOrOneSentence) {
  const test::ScratchDirectory directory;
  const auto path = directory / "a.gwt";
  const std::vector<uint8_t> original = test::a_trace_with_everything();
  test::write_file(path, original);
  EXPECT_GT(report_on(path), 0u);
  std::mt19937 random(20240602);
  size_t reported = 0, refused = 0;
  for (int round = 0; round < 500; ++round) {
    std::vector<uint8_t> bytes = original;
    test::mutate(bytes, random);
    test::write_file(path, bytes);
    try {
      reported += report_on(path) > 0;
    } catch (const io::UserError&) {
      ++refused;
    }
  }
  EXPECT_GT(reported, 200u);
  EXPECT_GT(refused, 10u);
}

}  // namespace
}  // namespace gpuwatch::report
