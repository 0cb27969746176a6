// SPDX-License-Identifier: Apache-2.0
// tf.data and Keras, whose threads work in the training process and are not recorded: more of them, or less
// work in them.
#include <gtest/gtest.h>

#include <algorithm>

#include "analyzer/advise/diagnose.h"
#include "analyzer/io/printable.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using model::Ns;

struct Pipeline {
  const char* class_name = "DatasetV2";
  const char* stages = "Batch < Map < TFRecord";
  double wait = 0.2, gil = 0;
  double cores = 1.9;                 // used, of 2
  double work = 0;                    // cores that the stages take, as tf.data counts; 0: not known
  const char* map = "ParallelMapV2";  // what the map is at run time
};

// At each end of the steps what tf.data had counted by then: batches of which the map takes most.
void add_readings(const Pipeline& pipeline, model::Process& process, Ns begin, Ns end) {
  uint64_t batches = 100;
  for (const Ns time : {begin, end}) {
    const auto work_ns = Ns(pipeline.work * double(end - begin) / 100 * double(batches));
    const uint64_t bytes = batches * 1000;
    process.stage_readings.push_back({time, process.loaders[0].id, 0, 0, "Root", batches, bytes, bytes, 0});
    process.stage_readings.push_back(
        {time, process.loaders[0].id, 1, 0, "Prefetch", batches, bytes, bytes, 0});
    process.stage_readings.push_back(
        {time, process.loaders[0].id, 2, 1, pipeline.map, batches, bytes, 0, work_ns});
    batches += 100;
  }
}

Diagnosis diagnose_pipeline(const Pipeline& pipeline) {
  test::Job job = test::make_loader_job({.workers = 0, .batches = 100, .cpu_count = 2});
  model::Process& process = job.process();
  process.loaders[0].framework = "tf.data";
  process.loaders[0].class_name = pipeline.class_name;
  process.loaders[0].dataset = pipeline.stages;
  process.loaders[0].num_workers = -1;
  process.epochs.resize(1);
  for (model::Batch& batch : process.epochs[0].batches) batch.fetch = {0, 0};
  test::set_shares(job, {{Category::InputUnknown, pipeline.wait}, {Category::Gil, pipeline.gil}});
  const Ns begin = job.rank().steps.front().step.begin, end = job.rank().steps.back().step.end;
  for (const Ns time : {begin, end}) {
    model::MachineSample sample{};
    sample.time = time;
    sample.cpu_ns = Ns(pipeline.cores * double(time));
    sample.cpu_total_ns = 2 * time;
    process.machine_samples.push_back(sample);
  }
  if (pipeline.work > 0) add_readings(pipeline, process, begin, end);
  return diagnose(job.run, job.ranks);
}

double ceiling_of(const Diagnosis& diagnosis, const char* id) {
  const Finding* finding = find(diagnosis.findings, id);
  return finding ? finding->ceiling_speedup.value_or(0) : 0;
}

TEST(UnseenPipeline, OnIdleCoresGetsMoreThreads) {
  const Diagnosis diagnosis = diagnose_pipeline({.cores = 1});
  EXPECT_NEAR(ceiling_of(diagnosis, "dataloader-workers"), 1.25, 0.01);
  EXPECT_EQ(find(diagnosis.findings, "input-decode"), nullptr);
}

// 1.9 of 2 cores: more threads gain at most 5%. Without its work, training would have both.
TEST(UnseenPipeline, OnFullCoresGetsLessWork) {
  const Diagnosis diagnosis = diagnose_pipeline({});
  const Finding* first = first_complaint(diagnosis.findings);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->id, "input-decode");
  EXPECT_NEAR(first->ceiling_speedup.value_or(0), 2.5, 0.01);
  EXPECT_NEAR(ceiling_of(diagnosis, "dataloader-workers"), 2 / 1.9, 0.01);
  const Finding* threads = find(diagnosis.findings, "dataloader-workers");
  EXPECT_TRUE(threads && threads->is_alternative) << "of the same data stall";
  EXPECT_FALSE(first->is_alternative);
  EXPECT_EQ(find(diagnose_pipeline({.wait = 0.01}).findings, "input-decode"), nullptr) << "nothing waits";
}

// 1.5 of 2 cores on average are 1.75 while training computes, because one thread works while it waits.
TEST(UnseenPipeline, CoresCountWhileTrainingComputes) {
  const Diagnosis diagnosis = diagnose_pipeline({.wait = 0.35, .cores = 1.5});
  const Finding* first = first_complaint(diagnosis.findings);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->id, "input-decode");
  EXPECT_NEAR(ceiling_of(diagnosis, "dataloader-workers"), 2 / 1.5, 0.01);
}

// What is missing in the pipeline decides which cause it is.
TEST(UnseenPipeline, HasTheCauseOfTheStageThatItLacks) {
  const auto first_of = [](const char* stages) {
    const Diagnosis diagnosis = diagnose_pipeline({.stages = stages, .cores = 1});
    const Finding* first = first_complaint(diagnosis.findings);
    return first ? first->id : "none";
  };
  EXPECT_EQ(first_of("Batch < Map < TFRecord"), "dataloader-workers");
  EXPECT_EQ(first_of("Batch < ParallelMap < TFRecord"), "dataloader-prefetch");
  EXPECT_EQ(first_of("Prefetch < Batch < ParallelMap < TFRecord"), "input-cacheable");
  EXPECT_EQ(first_of("Prefetch < Batch < ParallelMap (tf.py_function) < TFRecord"), "input-decode");
}

// claims-history of tests/abroad: a numpy_function that asks a service, 2.1 times as fast with four calls at
// once. Half a core was taken for Python that computes, and what became of map() and batch() for a parallel
// map.
TEST(UnseenPipeline, CallsAPythonFunctionThatWaitsInParallel) {
  const auto first_of = [](double cores) {
    const Diagnosis diagnosis =
        diagnose_pipeline({.stages = "Prefetch < Batch < Map (tf.numpy_function) < Shuffle",
                           .wait = 0.84,
                           .cores = cores,
                           .work = 0.8,
                           .map = "MapAndBatch"});
    const Finding* first = first_complaint(diagnosis.findings);
    return first ? first->id : "none";
  };
  EXPECT_EQ(first_of(0.5), "dataloader-workers");
  EXPECT_EQ(first_of(1), "input-decode");
}

TEST(UnseenPipeline, HoldsTheGilWhereItRunsPython) {
  const Pipeline in_python{
      .class_name = "Windows (PyDataset, workers=1)", .wait = 0.02, .gil = 0.2, .cores = 1.5};
  const Diagnosis diagnosis = diagnose_pipeline(in_python);
  const Finding* first = first_complaint(diagnosis.findings);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->id, "input-decode");
  EXPECT_EQ(diagnosis.verdict.id, "host-bound");
  EXPECT_EQ(find(diagnose_pipeline({.wait = 0.02, .gil = 0.2, .cores = 1.5}).findings, "input-decode"),
            nullptr)
      << "someone else's";
}

// Hidden behind training, which waits for nothing, it still takes cores that training could have: 2 of them
// for the 1.4 that the job uses without it. Were one free, it would take nothing from training. Work that
// takes longer than there are cores for it waits for them as training does, and is no more of the CPU time.
TEST(UnseenPipeline, CompetesWithTrainingThatDoesNotWait) {
  const Pipeline hidden{.wait = 0.01, .work = 0.5};
  const Diagnosis diagnosis = diagnose_pipeline(hidden);
  const Finding* first = first_complaint(diagnosis.findings);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->id, "input-decode");
  EXPECT_TRUE(first->fix.summary.starts_with("Do less in the map (")) << first->fix.summary;
  EXPECT_NE(first->fix.summary.find("or transform whole batches"), std::string::npos) << first->fix.summary;
  EXPECT_NEAR(first->ceiling_speedup.value_or(0), 2 / 1.4, 0.01);
  EXPECT_EQ(diagnosis.verdict.id, "cpu-job");
  EXPECT_NEAR(diagnosis.verdict.ceiling_speedup, 2 / 1.4, 0.01);
  EXPECT_NE(diagnosis.verdict.sentence.find("data loading takes CPU cores from it"), std::string::npos)
      << diagnosis.verdict.sentence;
  EXPECT_NEAR(ceiling_of(diagnose_pipeline({.wait = 0.01, .work = 1.5}), "input-decode"),
              2 / (1.9 - 1.9 * 1.5 / (1.5 + 0.99)), 0.03);
  // Beside a training of one thread: a fifth of a core of two.
  EXPECT_EQ(find(diagnose_pipeline({.wait = 0.01, .cores = 1.2, .work = 0.2}).findings, "input-decode"),
            nullptr);
  EXPECT_EQ(find(diagnose_pipeline({.wait = 0.01, .work = 0.2}).findings, "input-decode"), nullptr)
      << "hardly works";
}

// keras-power and keras-text of tests/abroad: "faster data loading gains up to 1.00x".
TEST(UnseenPipeline, HasNoBoundWhereNothingIsKnownOfItsWork) {
  const auto says = [](const Diagnosis& diagnosis) {
    return std::ranges::any_of(diagnosis.limits, [](const Limit& limit) {
      return limit.bears_on_conclusion &&
             limit.sentence ==
                 "How much tf.data, which works on the same CPU cores, takes from training is not known.";
    });
  };
  const Diagnosis unknown = diagnose_pipeline({.wait = 0.01});
  EXPECT_EQ(unknown.verdict.id, "cpu-job");
  EXPECT_EQ(unknown.verdict.sentence.find("up to"), std::string::npos) << unknown.verdict.sentence;
  EXPECT_NE(unknown.verdict.sentence.find("what tf.data takes from it on the same cores is not known"),
            std::string::npos)
      << unknown.verdict.sentence;
  EXPECT_TRUE(says(unknown));
  EXPECT_EQ(find(unknown.findings, "healthy"), nullptr);
  // 0.2 of the 1.9 cores that the job uses.
  const Diagnosis known = diagnose_pipeline({.wait = 0.01, .work = 0.2});
  EXPECT_NE(known.verdict.sentence.find("up to 1.12x"), std::string::npos) << known.verdict.sentence;
  EXPECT_FALSE(says(known));
}

// A cache behind the shuffle would keep the order of the first epoch.
TEST(UnseenPipeline, ShufflesBehindTheCache) {
  const Diagnosis diagnosis =
      diagnose_pipeline({.stages = "Batch < Map < Shuffle < TFRecord", .wait = 0.01, .work = 0.5});
  const Finding* first = first_complaint(diagnosis.findings);
  ASSERT_NE(first, nullptr);
  EXPECT_NE(first->fix.summary.find("shuffle after it, with .cache() between"), std::string::npos)
      << first->fix.summary;
  EXPECT_LE(first->fix.summary.size(), io::kPrintableBytes) << "cut in the report";
}

// TensorFlow makes a map without state parallel, and adds a prefetch: to advise that gains nothing.
TEST(UnseenPipeline, AdvisesWhatTensorFlowHasNotDone) {
  const auto first_of = [](const char* stages, const char* map) {
    const Diagnosis diagnosis = diagnose_pipeline({.stages = stages, .cores = 0.9, .work = 0.3, .map = map});
    const Finding* first = first_complaint(diagnosis.findings);
    return first ? first->id : "none";
  };
  EXPECT_EQ(first_of("Prefetch < Batch < Map < TFRecord", "Map"), "dataloader-workers");
  EXPECT_EQ(first_of("Prefetch < Batch < Map < TFRecord", "ParallelMapV2"), "input-cacheable");
  EXPECT_EQ(first_of("Batch < ParallelMap < TFRecord", "ParallelMapV2"), "input-cacheable");
}

}  // namespace
}  // namespace gpuwatch::advise
