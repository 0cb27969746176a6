// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "analyzer/advise/diagnose.h"
#include "analyzer/advise/rule.h"
#include "analyzer/report/step_times.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::report {
namespace {

using Json = nlohmann::ordered_json;

struct Made {
  test::Job job;
  advise::Diagnosis diagnosis = advise::diagnose(job.run, job.ranks);
  Report report{job.run, job.ranks, diagnosis, "0.1.0"};
};

void expect_fields(const Json& object, std::initializer_list<const char*> fields) {
  for (const char* field : fields) EXPECT_TRUE(object.contains(field)) << field;
}

TEST(Json, HasEveryFieldOfTheContract) {
  Made made{test::make_loader_job({})};
  Json report = json(made.report);
  EXPECT_EQ(report["schema"], "gpuwatch.report.v1");
  expect_fields(
      report, {"versions", "job", "verdict", "trace", "coverage", "overhead", "ranks", "findings", "limits"});
  expect_fields(report["versions"], {"gpuwatch", "format", "python", "framework", "cuda", "driver", "nccl"});
  expect_fields(report["job"], {"run_id", "user", "scheduler", "script", "start", "end", "end_state"});
  expect_fields(report["verdict"], {"id", "sentence", "ceiling_speedup"});
  expect_fields(report["trace"],
                {"processes", "ranks", "duration_s", "events", "bytes", "lost_events", "recorded_share"});
  expect_fields(report["coverage"], {"sources", "launches_matched_share"});
  expect_fields(report["overhead"], {"estimated_share"});
  const Json& rank = report["ranks"][0];
  expect_fields(rank,
                {"rank", "host", "pid", "device", "framework", "steps", "wall_ns", "attribution", "loaders"});
  expect_fields(rank["steps"], {"count", "recorded", "mean_ms", "p50_ms", "p95_ms", "samples_per_step",
                                "samples_per_s", "source"});
  expect_fields(rank["loaders"][0],
                {"class", "dataset", "num_workers", "batch_size", "pin_memory", "prefetch_factor",
                 "persistent_workers", "batches", "wait_s", "fetch_ms_mean", "location"});
  const Json& finding = report["findings"][0];
  expect_fields(finding, {"id", "severity", "title", "ranks", "lost_share", "evidence", "fix", "prediction",
                          "ceiling"});
  expect_fields(finding["evidence"][0], {"what", "value", "unit"});
  expect_fields(finding["fix"], {"summary", "setting", "value", "location", "snippet"});
  expect_fields(finding["prediction"],
                {"metric", "now", "low", "expected", "high", "speedup", "assumptions"});
  expect_fields(finding["prediction"]["speedup"], {"low", "expected", "high"});
}

TEST(Json, AttributesEveryNanosecond) {
  Made made{test::make_loader_job({})};
  Json report = json(made.report);
  int64_t sum = 0;
  for (const Json& entry : report["ranks"][0]["attribution"]) sum += entry["ns"].get<int64_t>();
  EXPECT_EQ(sum, report["ranks"][0]["wall_ns"].get<int64_t>());
}

TEST(StepTimes, CausesOfEachStepSumToItsLength) {
  Made made{test::make_loader_job({})};
  const attribute::RankAttribution& rank = made.job.ranks[0];
  const Json times = step_times(made.job.process(), rank, 7);
  EXPECT_EQ(times["first_step"], 7);
  ASSERT_EQ(times["length_ns"].size(), rank.steps.size());
  ASSERT_EQ(times["begin_ns"].size(), rank.steps.size());
  int64_t total = 0;
  for (size_t i = 0; i < rank.steps.size(); ++i) {
    int64_t sum = 0;
    for (const Json& column : times["attribution_ns"]) sum += column[i].get<int64_t>();
    EXPECT_EQ(sum, times["length_ns"][i].get<int64_t>());
    total += sum;
  }
  EXPECT_EQ(total, rank.wall_ns);
}

TEST(Json, CountsTheWaitInEveryNextThatReturnedABatch) {
  Made made{test::make_loader_job({})};
  double wait_ns = 0;
  for (const model::Batch& batch : made.job.process().epochs[0].batches)
    wait_ns += double(batch.next.length());
  Json loader = json(made.report)["ranks"][0]["loaders"][0];
  EXPECT_NEAR(loader["wait_s"].get<double>(), wait_ns / 1e9, 1e-9);
  EXPECT_EQ(loader["batches"], 200);
  EXPECT_NEAR(loader["fetch_ms_mean"].get<double>(), 10, 1e-6);
}

// 1.3 us of CUPTI's and 50 ns of ours for a launch every 13 us, where no queue hides them.
TEST(Json, CountsWhatTheDeviceWaitedForAsOverhead) {
  const auto overhead = [](const std::vector<test::Action>& step) {
    Made made{test::make_device_job(step, 100)};
    return json(made.report)["overhead"]["estimated_share"].get<double>();
  };
  EXPECT_NEAR(overhead(std::vector<test::Action>(20, {.gap_us = 8, .device_us = 1})), 1.35 / 13, 0.01);
  EXPECT_LT(overhead({{.device_us = 500}}), 0.001);
}

TEST(Json, OrdersTheIntervalOfAPrediction) {
  Made made{test::make_loader_job({})};
  Json prediction = json(made.report)["findings"][0]["prediction"];
  EXPECT_LE(prediction["low"], prediction["expected"]);
  EXPECT_LE(prediction["expected"], prediction["high"]);
  EXPECT_LE(prediction["speedup"]["low"], prediction["speedup"]["expected"]);
  EXPECT_LE(prediction["speedup"]["expected"], prediction["speedup"]["high"]);
}

TEST(Text, ReadsAsTheReportShould) {
  Made made{test::make_loader_job({})};
  std::string report = text(made.report, {});
  EXPECT_EQ(report.rfind("INPUT-BOUND: ", 0), 0u);
  for (const char* words :
       {"\ntrain.py, PyTorch 2.13.0, 1x CPU, 200 steps\n", "\nwhere a step goes\n  data loading ",
        " transforms ", "\n1. Set num_workers=3 (train.py:88) ", " 10.0 -> ",
        "\nno gain    more than 3 workers (", "\nconfidence high: model error ",
        "\nnext       make change 1 (train.py:88), run again",
        "\nlearn more gpuwatch explain dataloader-workers\n"})
    EXPECT_NE(report.find(words), std::string::npos) << words << "\n" << report;
}

// One reader says nothing of nine: a good model of what was recorded is no confidence in a bound.
TEST(Text, IsNotConfidentOfABound) {
  test::LoaderJob wanted;
  wanted.cpu_count = 2;
  wanted.service_ms = [](size_t) { return 32.0; };
  wanted.describe = [](model::Batch& batch) {
    batch.fetch_blocked_ns = batch.fetch_io_ns = 30'000'000;
    batch.bytes_read = batch.disk_bytes = 100'000;
    batch.reads = 8;
  };
  Made made{test::make_loader_job(wanted)};
  advise::Finding& first = made.diagnosis.findings.front();
  ASSERT_TRUE(first.is_complaint() && !first.prediction && first.ceiling_speedup);
  first.ceiling_speedup = 15;
  const std::string bounded = text(made.report, {});
  EXPECT_NE(bounded.find("\nconfidence change 1 is not predicted: model error "), std::string::npos)
      << bounded;
  EXPECT_NE(bounded.find("up to 15x\n"), std::string::npos) << bounded;
  first.ceiling_speedup = 60;
  EXPECT_EQ(text(made.report, {}).find("up to 60x"), std::string::npos) << "says nothing";
}

TEST(Text, BreaksLinesAtTheTerminalsEdge) {
  Made made{test::make_loader_job({})};
  std::istringstream lines(text(made.report, {.width = 60}));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 60u) << line;
}

TEST(Text, LetsNoNameTouchTheTerminal) {
  test::Job job = test::make_loader_job({});
  const std::string hostile = "\x1b]0;owned\x07\x1b[2J\r\n<script>\xff";
  job.process().script = hostile;
  job.process().facts["torch"] = hostile;
  job.process().loaders[0].location = hostile;
  job.process().sources["cupti"] = {trace::SourceState::Held, hostile, hostile};
  job.process().dropped_records[hostile] = 1;
  job.run.damage = {hostile};
  Made made{std::move(job)};
  for (char c : text(made.report, {}))
    EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << int(c);
  std::string dumped = json(made.report).dump();  // throws on invalid UTF-8
  EXPECT_EQ(dumped.find("\\u001b"), std::string::npos);
}

TEST(Text, UsesColorsOnlyWhereAsked) {
  Made made{test::make_loader_job({})};
  EXPECT_EQ(text(made.report, {}).find('\x1b'), std::string::npos);
  EXPECT_NE(text(made.report, {.colors = true}).find('\x1b'), std::string::npos);
}

TEST(Text, SaysHowAKilledJobEndedAndWhatItWaitedIn) {
  test::Job job = test::make_loader_job({});
  job.process().end_state = model::EndState::kKilledOrRunning;
  job.run.operations = {{"DataLoader.next", trace::OpClass::LoaderNext}, {"sem_wait", trace::OpClass::Wait}};
  job.process().threads[0].open_calls = {{job.process().last_seen - 2'000'000'000, 0, 0},
                                         {job.process().last_seen, 1, 0}};
  Made made{std::move(job)};
  std::string report = text(made.report, {.width = 200});
  EXPECT_NE(report.find("process 4242 was killed"), std::string::npos) << report;
  EXPECT_NE(report.find("training thread 4242 in DataLoader.next > sem_wait, 2 s before"), std::string::npos)
      << report;
  EXPECT_EQ(json(made.report)["job"]["end_state"], "killed");
}

// torch.compile kills its own at the end of each job.
TEST(Text, IsSilentAboutTheEndOfWhatServesATrainingProcess) {
  test::Job job = test::make_loader_job({});
  model::Process server;
  server.pid = 5001;
  server.parent = 0;
  server.end_state = model::EndState::kKilledOrRunning;
  model::Process servers_child = server;
  servers_child.pid = 5002;
  servers_child.parent = 1;
  model::Process stranger = server;
  stranger.pid = 5003;
  stranger.parent = model::kNone;
  for (const model::Process& process : {server, servers_child, stranger})
    job.run.processes.push_back(process);
  Made made{std::move(job)};
  const std::string report = text(made.report, {.width = 200});
  EXPECT_EQ(report.find("5001"), std::string::npos) << report;
  EXPECT_EQ(report.find("5002"), std::string::npos) << report;
  EXPECT_NE(report.find("process 5003 was killed"), std::string::npos) << report;
}

TEST(Findings, AreDocumentedFromTheRules) {
  std::string document = findings_markdown();
  for (const advise::Rule* rule : advise::all_rules()) {
    EXPECT_NE(document.find("\n## " + std::string(rule->id) + "\n"), std::string::npos) << rule->id;
    EXPECT_FALSE(rule->wrong.empty() || rule->evidence.empty() || rule->fix.empty()) << rule->id;
    for (const advise::Threshold& threshold : rule->thresholds)
      EXPECT_FALSE(threshold.reason.empty()) << threshold.name;
  }
}

}  // namespace
}  // namespace gpuwatch::report
