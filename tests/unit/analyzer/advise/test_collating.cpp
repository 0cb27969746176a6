// SPDX-License-Identifier: Apache-2.0
// What to do about a slow collate_fn depends on whose it is, on the samples' shapes and on the dataset.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/analyzer/advise/found.h"

namespace gpuwatch::advise {
namespace {

constexpr uint32_t kStack = 91, kFormat = 92, kWorkerPid = 5000;
const std::string kFetch = "\n/v/site-packages/torch/utils/data/_utils/fetch.py:57 _MapDatasetFetcher.fetch";
const std::string kDefaultCollate =
    "/v/site-packages/torch/utils/data/_utils/collate.py:272 collate_tensor_fn";

// 7 of 10 ms to make a batch are collate_fn's; all samples then show this stack.
struct CollatingJob {
  explicit CollatingJob(const std::string& collate, bool is_padded = false) : job(make(is_padded)) {
    job.run.texts[kStack] = collate + kFetch + "\n/home/a/train.py:40 main";
    see(kStack, 1'000'000);
  }
  static test::Job make(bool is_padded) {
    test::LoaderJob wanted;
    wanted.workers = 0;
    wanted.cpu_count = 1;  // no worker helps
    wanted.cpu_share = 1;
    wanted.describe = [=](model::Batch& batch) {
      batch.collate_ns = 7'000'000;
      batch.samples = batch.samples_seen = 4;
      batch.longest_sample = 100;
      batch.padded_elements = 4 * 100;
      batch.sample_elements = is_padded ? 4 * 60 : 4 * 100;
    };
    return test::make_loader_job(wanted);
  }
  // In each fetch, so long before its end.
  void see(uint32_t text, model::Ns before_end) {
    for (const model::Batch& batch : job.process().epochs[0].batches)
      job.process().threads[0].worker_stacks.push_back(
          {batch.fetch.end - before_end, 10'000'000, text, job.process().pid});
  }
  Found found() const { return {job, "collate-cost"}; }
  test::Job job;
};

TEST(Collating, OfSamplesThatDifferInLengthFillsOneArray) {
  const Found found = CollatingJob("/home/a/train.py:39 collate_lists", true).found();
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->fix.summary.starts_with("Fill one array per batch in collate_lists instead of lists"))
      << found->fix.summary;
  EXPECT_EQ(found->fix.location, "/home/a/train.py:39");
  EXPECT_FALSE(found->prediction) << "what filling it takes is not known";
  EXPECT_GE(*found->ceiling_speedup, found->too_wide ? found->too_wide->speedup.high : 1);
}

TEST(Collating, OfSamplesOfOneLengthIsAStack) {
  const Found found = CollatingJob("/home/a/train.py:12 Pairs.__call__").found();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->fix.summary,
            "Do the work of Pairs.__call__() once, when the data are prepared, and return tensors of one "
            "shape from "
            "the dataset, so that it is a single torch.stack");
  EXPECT_EQ(found->fix.location, "/home/a/train.py:12");
  EXPECT_TRUE(found->prediction);
}

// The line to change is the script's that called it.
TEST(Collating, ThatCallsAPackageDoesItElsewhere) {
  const Found found =
      CollatingJob("/v/site-packages/spacy/language.py:1100 Language.make_doc\n/home/a/train.py:33 collate")
          .found();
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->fix.summary.starts_with("Take Language.make_doc out of collate_fn"))
      << found->fix.summary;
  EXPECT_EQ(found->fix.location, "/home/a/train.py:33");
  EXPECT_EQ(found->evidence[1].what, "time in Language.make_doc");
}

// ecg-trainer of tests/abroad: with_format("numpy") made it 1.7 times as fast.
TEST(Collating, OfRowsThatAreListsSetsAFormat) {
  const auto job = [](const char* formatter, const std::string& table = "arrow_dataset.py:3153 Dataset") {
    CollatingJob made("/v/site-packages/transformers/data/data_collator.py:158 torch_default_data_collator");
    made.job.process().loaders[0].code = "/v/site-packages/datasets/" + table + ".__getitem__";
    made.job.run.texts[kFormat] = std::string("/v/site-packages/datasets/formatting/") + formatter +
                                  "\n/v/site-packages/datasets/arrow_dataset.py:3158 Dataset.__getitem__" +
                                  kFetch;
    made.see(kFormat, 9'000'000);
    return made.found();
  };
  const Found lists = job("formatting.py:160 PythonFormatter.format_row");
  ASSERT_TRUE(lists);
  EXPECT_EQ(setting_name(lists->fix.change), "with_format");
  EXPECT_FALSE(lists->prediction) << "what rows in a format take is not known";
  EXPECT_TRUE(lists->ceiling_speedup);
  // Streamed, such rows came 12 times as slowly in a format.
  const Found streamed =
      job("formatting.py:160 PythonFormatter.format_row", "iterable_dataset.py:2300 IterableDataset");
  ASSERT_TRUE(streamed);
  EXPECT_EQ(setting_name(streamed->fix.change), "collate_fn");
  const Found tensors = job("torch_formatter.py:80 TorchFormatter.format_row");
  ASSERT_TRUE(tensors);
  EXPECT_EQ(setting_name(tensors->fix.change), "collate_fn");
  const Found transformed = job("formatting.py:510 CustomFormatter.format_batch");
  ASSERT_TRUE(transformed);
  EXPECT_EQ(setting_name(transformed->fix.change), "collate_fn");
}

TEST(Collating, ByDefaultIsOfWholeBatchesInWorkersToo) {
  test::LoaderJob wanted;
  wanted.cpu_count = 1;
  wanted.cpu_share = 1;
  wanted.describe = [](model::Batch& batch) { batch.collate_ns = 7'000'000; };
  test::Job job = test::make_loader_job(wanted);
  model::Process& process = job.process();
  for (model::Worker& worker : process.epochs[0].workers) worker.pid = kWorkerPid;
  const auto summary_with = [&](const std::string& collate) {
    job.run.texts[kStack] =
        collate + kFetch + "\n/v/site-packages/torch/utils/data/_utils/worker.py:300 _worker_loop";
    process.threads[0].worker_stacks.clear();
    for (const model::Batch& batch : process.epochs[0].batches)
      process.threads[0].worker_stacks.push_back(
          {batch.fetch.end - 1'000'000, 10'000'000, kStack, kWorkerPid});
    const Found found(job, "collate-cost");
    return found ? found->fix.summary : "";
  };
  EXPECT_TRUE(summary_with(kDefaultCollate).starts_with("Index whole batches"));
  EXPECT_TRUE(summary_with(kDefaultCollate + "\n/home/a/train.py:12 collate").starts_with("Do the work of"))
      << "the script's, which calls PyTorch's";
  EXPECT_TRUE(summary_with("/home/a/data.py:9 Images.__getitem__").starts_with("Do the work of"))
      << "not seen collating";
}

// So short that no sample was in it: 200 tensors are what is slow.
TEST(Collating, OfManyTensorsNeedsNoSample) {
  const auto summary_with = [](uint32_t tensors) {
    test::Job job = test::make_loader_job({.cpu_share = 1, .describe = [=](model::Batch& batch) {
                                             batch.collate_ns = 5'000'000;
                                             batch.tensors = tensors;
                                           }});
    test::set_shares(job,
                     {{attribute::Category::InputTransfer, 0.5}, {attribute::Category::InputTransform, 0.1}});
    const Found found(job, "collate-cost");
    return found ? found->fix.summary : "";
  };
  EXPECT_TRUE(summary_with(200).starts_with("Return one tensor")) << summary_with(200);
  EXPECT_TRUE(summary_with(2).starts_with("Do the work of")) << summary_with(2);
}

// Photos, of which stacking takes most next to a busy process: each still is decoded.
TEST(Collating, ByDefaultIsNotOfWholeBatchesWhereFilesAreDecoded) {
  const auto job = [](const std::string& makes) {
    CollatingJob made(kDefaultCollate);
    made.job.run.texts[kFormat] = makes + "\n/home/a/data.py:41 Photos.__getitem__" + kFetch;
    made.see(kFormat, 9'000'000);
    for (const model::Batch& batch : made.job.process().epochs[0].batches)
      made.job.rank().slices.push_back(
          {batch.fetch.begin, batch.fetch.end - 7'000'000, attribute::Category::InputTransform, 0});
    return made.found();
  };
  EXPECT_TRUE(job("/v/site-packages/numpy/core.py:9 roll"));
  EXPECT_FALSE(job("/v/site-packages/PIL/JpegImagePlugin.py:9 load_read"));
}

TEST(Collating, OfATensorDatasetIsOfWholeBatches) {
  CollatingJob tensors("/v/site-packages/torch/utils/data/dataset.py:200 <genexpr>");
  tensors.job.process().threads[0].worker_stacks.clear();
  tensors.job.process().loaders[0].dataset = "TensorDataset";
  const Found found = tensors.found();
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->fix.summary.starts_with("Index whole batches")) << found->fix.summary;
  EXPECT_FALSE(found->prediction) << "of another change";
  const Diagnosis diagnosis = diagnose(tensors.job.run, tensors.job.ranks);
  EXPECT_EQ(std::ranges::count(diagnosis.findings, found->fix.summary,
                               [](const Finding& finding) { return finding.fix.summary; }),
            1)
      << "said once, of collating or of transforms";
}

}  // namespace
}  // namespace gpuwatch::advise
