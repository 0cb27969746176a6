// SPDX-License-Identifier: Apache-2.0
// Several files of torch.profiler in one report: ranks of a job, several recordings of one rank, folders; and
// recordings of the device alone.
#include <fmt/format.h>

#include <random>

#include "analyzer/model/build.h"
#include "analyzer/model/steps.h"
#include "tests/unit/analyzer/scratch_file.h"

namespace gpuwatch::model {
namespace {

using test::says;

struct Recorded {
  int rank = 0, world_size = 2;
  uint32_t pid = 50;
  double begin_s = 1000;
  std::string host = "";
  int steps = 2;
};

// Steps of 1000 us, with two kernels each; ids of launches begin with 1, as AMD's do in each recording.
std::string recording(const Recorded& recorded) {
  std::string events;
  const auto add = [&](const std::string& event) { events += (events.empty() ? "" : ",\n") + event; };
  for (int step = 0; step < recorded.steps; ++step) {
    const double begin = recorded.begin_s * 1e6 + 1000 * step;
    add(fmt::format(
        R"({{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{}", "pid": {}, "tid": 9, "ts": {}, "dur": 1000}})",
        step, recorded.pid, begin));
    for (int kernel = 0; kernel < 2; ++kernel) {
      const int id = 1 + 2 * step + kernel;
      add(fmt::format(
          R"({{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": {}, "tid": 9, "ts": {}, "dur": 10, "args": {{"correlation": {}}}}})",
          recorded.pid, begin + 100 + 300 * kernel, id));
      add(fmt::format(
          R"({{"ph": "X", "cat": "kernel", "name": "gemm{}", "pid": 0, "tid": 7, "ts": {}, "dur": 200, "args": {{"device": 0, "stream": 7, "correlation": {}}}}})",
          kernel, begin + 150 + 300 * kernel, id));
    }
  }
  return fmt::format(
      R"({{"host_name": "{}", "distributedInfo": {{"rank": {}, "world_size": {}}}, "traceEvents": [{}]}})",
      recorded.host, recorded.rank, recorded.world_size, events);
}

class KinetoRanksTest : public test::FileTest {
 protected:
  std::string refused(const Recorded& a, const Recorded& b) {
    return error_of([&] {
      build_run(std::vector{save(recording(a), "a.json"), save(recording(b), "b.json")});
    });
  }
};

TEST_F(KinetoRanksTest, RecordingsOfOneRankAreOneProcess) {
  const model::Run run = build_run(std::vector{save(recording({.begin_s = 1060}), "a.json"),
                                               save(recording({.begin_s = 1000}), "b.json")});
  ASSERT_EQ(run.processes.size(), 1);
  EXPECT_EQ(run.kernels_total, 8);
  EXPECT_EQ(run.kernels_matched, 8);
  const Process& process = run.processes[0];
  ASSERT_EQ(process.unobserved.size(), 1);
  const StepSeries series = find_steps(run, process);
  ASSERT_EQ(series.steps.size(), 4);
  for (const Step& step : series.steps) EXPECT_EQ(step.end - step.begin, 1'000'000);
  // The launch of each kernel is of its own recording.
  for (const DeviceOp& op : process.devices[0].operations)
    EXPECT_EQ(op.begin - process.threads[op.launch_thread].calls[op.launch_call].begin, 50'000);
}

TEST_F(KinetoRanksTest, WithoutMarksEachRecordingIsAnInterval) {
  std::string a = recording({.begin_s = 1000}), b = recording({.begin_s = 1060});
  for (std::string* json : {&a, &b})
    for (size_t at; (at = json->find("ProfilerStep#")) != std::string::npos;)
      json->replace(at, 13, "something#");
  const model::Run run = build_run(std::vector{save(a, "a.json"), save(b, "b.json")});
  const StepSeries series = find_steps(run, run.processes.at(0));
  ASSERT_EQ(series.steps.size(), 2);
  for (const Step& step : series.steps) EXPECT_LE(step.end - step.begin, 2'000'000);
}

TEST_F(KinetoRanksTest, RanksOfOneJobAreProcesses) {
  const model::Run run = build_run(
      std::vector{save(recording({.rank = 1, .pid = 60}), "a.json"), save(recording({}), "b.json")});
  ASSERT_EQ(run.processes.size(), 2);
  EXPECT_EQ(run.processes[0].rank, 0);
  EXPECT_EQ(run.processes[1].rank, 1);
}

TEST_F(KinetoRanksTest, RanksOfDifferentJobsAreRefused) {
  EXPECT_TRUE(says(refused({}, {.rank = 1, .world_size = 8, .pid = 60}),
                   "of different jobs: one has 2 ranks, the other 8; analyze them apart"));
  EXPECT_TRUE(
      says(refused({}, {.pid = 60, .begin_s = 1030}), "both are rank 0, of process 50 and of process 60"));
  EXPECT_TRUE(says(refused({.host = "n1"}, {.begin_s = 1030, .host = "n2"}), "of process 50 on n1"));
  EXPECT_TRUE(
      says(refused({}, {.rank = 1, .pid = 60, .begin_s = 1000 + 3 * 3600}), "recorded 3 hours apart"));
  EXPECT_TRUE(says(refused({}, {}), "the same recording"));
}

// Whatever several files hold, they are a run or a sentence.
TEST_F(KinetoRanksTest, MutationsDoNoHarm) {
  std::mt19937 random(2);
  const std::string bytes = "{}[]\",:0159e-.\\ntru";
  const std::vector<std::string> whole = {recording({}), recording({.begin_s = 1060}),
                                          recording({.rank = 1, .pid = 60})};
  size_t read = 0;
  for (int i = 0; i < 500; ++i) {
    std::vector<std::string> files;
    for (size_t file = 0; file < whole.size(); ++file) {
      std::string json = whole[file];
      for (size_t j = 0; j < random() % 3; ++j) {
        const size_t at = random() % json.size();
        if (random() % 2)
          json[at] = bytes[random() % bytes.size()];
        else
          json.insert(at, json.substr(random() % json.size(), random() % 30));
      }
      files.push_back(save(json, (std::to_string(file) + ".json").c_str()));
    }
    const std::string sentence = error_of([&] {
      const model::Run run = build_run(files);
      for (const Process& process : run.processes) find_steps(run, process);
      ++read;
    });
    EXPECT_EQ(sentence.find('\n'), std::string::npos);
  }
  EXPECT_GT(read, 100);
}

TEST_F(KinetoRanksTest, AFolderIsAllOfItsTraces) {
  save(recording({}), "node1_50.1000.pt.trace.json");
  save(recording({.begin_s = 1060}), "node1_50.1060.pt.trace.json");
  save(recording({.rank = 1, .pid = 60}), "node2_60.1000.pt.trace.json");
  save("{}", "config.json");
  const model::Run run = build_run(std::vector{directory_.string()});
  ASSERT_EQ(run.processes.size(), 2);
  EXPECT_EQ(run.processes[0].host, "node1");
  EXPECT_EQ(run.processes[1].host, "node2");
  EXPECT_EQ(run.damage.size(), 0);
}

TEST_F(KinetoRanksTest, AFolderOfOtherNamesAndDamagedFilesIsReadAsFarAsItGoes) {
  save(recording({}), "rank0.json");
  save(recording({.rank = 1, .pid = 60}).substr(0, 700), "rank1.json");
  const model::Run run = build_run(std::vector{directory_.string()});
  EXPECT_EQ(run.processes.size(), 1);
  ASSERT_EQ(run.damage.size(), 1);
  EXPECT_TRUE(says(run.damage[0], "is cut off"));
}

// What the profiler writes with activities=[ProfilerActivity.CUDA] where the runtime's calls are not kept.
std::string device_only(int steps) {
  std::string events;
  for (int step = 0; step < steps; ++step)
    for (int kernel = 0; kernel < 3; ++kernel)
      events += fmt::format(
          R"({}{{"ph": "X", "cat": "kernel", "name": "k{}", "pid": 0, "tid": 7, "ts": {}, "dur": 20, "args": {{"device": 0, "stream": 7, "correlation": {}}}}})",
          events.empty() ? "" : ",", kernel, 1000 + 100 * step + 25 * kernel, 1 + 3 * step + kernel);
  return R"({"traceEvents": [)" + events + "]}";
}

TEST_F(KinetoRanksTest, TheDeviceAloneHasStepsWhereItsKernelsRecur) {
  const model::Run run = build_run(std::vector{save(device_only(20))});
  const Process& process = run.processes.at(0);
  EXPECT_TRUE(process.is_rank());
  EXPECT_TRUE(process.sources.contains("host calls"));
  const StepSeries series = find_steps(run, process);
  EXPECT_EQ(series.source, "launches");
  ASSERT_GE(series.steps.size(), 15);
  for (const Step& step : series.steps) EXPECT_EQ(step.end - step.begin, 100'000);
}

TEST_F(KinetoRanksTest, TheDeviceAloneIsOneIntervalWhereNothingRecurs) {
  const model::Run run = build_run(std::vector{save(device_only(2))});
  const StepSeries series = find_steps(run, run.processes.at(0));
  EXPECT_EQ(series.source, "trace");
  ASSERT_EQ(series.steps.size(), 1);
}

// Ranges that the script marked are steps where neither profiler nor optimizer did.
TEST_F(KinetoRanksTest, RangesOfTheScriptAreSteps) {
  std::string json = recording({.steps = 4});
  for (size_t at; (at = json.find("ProfilerStep#")) != std::string::npos;)
    json.replace(at, 13, "train_step ");
  const model::Run run = build_run(std::vector{save(json)});
  const StepSeries series = find_steps(run, run.processes.at(0));
  EXPECT_EQ(series.steps.size(), 4);
  EXPECT_EQ(series.source, "nvtx");
}

}  // namespace
}  // namespace gpuwatch::model
