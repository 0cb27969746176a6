// SPDX-License-Identifier: Apache-2.0
// What the fix for costly transforms says: the function, by stack samples of those who make batches, and only
// ways that the job has.
#include <gtest/gtest.h>

#include "analyzer/model/decoders.h"
#include "tests/unit/analyzer/advise/found.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;

constexpr uint32_t kStack = 91, kWorkerPid = 5000;
const std::string kFetch = "\n/v/site-packages/torch/utils/data/_utils/fetch.py:54 _MapDatasetFetcher.fetch";
const std::string kTraining = kFetch + "\n/home/a/train.py:40 main";
const std::string kWorker = kFetch + "\n/v/site-packages/torch/utils/data/_utils/worker.py:300 _worker_loop";

test::LoaderJob computing(int workers, uint32_t cpu_count, double think_ms = 5) {
  test::LoaderJob job;
  job.workers = workers;
  job.cpu_share = 1;
  job.cpu_count = cpu_count;
  job.service_ms = [](size_t) { return 100.0; };
  job.think_ms = [=](size_t) { return think_ms; };
  return job;
}

// All samples while batches are made show this stack.
test::Job seen_in(const std::string& stack, int workers = 0) {
  test::Job job = test::make_loader_job(computing(workers, 2));
  job.run.texts[kStack] = stack;
  model::Process& process = job.process();
  for (model::Worker& worker : process.epochs[0].workers) worker.pid = kWorkerPid;
  const uint32_t pid = workers > 0 ? kWorkerPid : process.pid;
  for (const model::Batch& batch : process.epochs[0].batches) {
    process.threads[0].worker_stacks.push_back({batch.fetch.end - 1'000'000, 10'000'000, kStack, pid});
    if (workers == 0)
      job.rank().slices.push_back({batch.fetch.begin, batch.fetch.end, Category::InputTransform, 0});
  }
  return job;
}

bool says(const Found& found, const char* words) {
  return found->fix.summary.find(words) != std::string::npos;
}

TEST(CostlyFunction, OfTheScriptIsNamedWithItsShare) {
  for (const int workers : {0, 2}) {
    const Found found(seen_in("/v/site-packages/librosa/feature/spectral.py:9 melspectrogram\n"
                              "/home/a/data.py:16 Clips.mel" +
                                  (workers ? kWorker : kTraining),
                              workers),
                      "input-decode");
    ASSERT_TRUE(found) << workers;
    EXPECT_EQ(found->fix.summary,
              "Make Clips.mel cheaper, or compute it once and keep the result unless it is random");
    EXPECT_EQ(found->fix.location, "/home/a/data.py:16");
    EXPECT_EQ(found->evidence[0].what, "time in Clips.mel");
    EXPECT_NEAR(found->evidence[0].value, 100, 1e-9);
  }
}

TEST(CostlyFunction, MayDecodeFiles) {
  for (const int workers : {0, 2}) {
    const Found found(seen_in("/v/site-packages/PIL/ImageFile.py:300 ImageFile.load\n"
                              "/v/site-packages/PIL/Image.py:982 Image.convert\n"
                              "/home/a/data.py:41 Photos.__getitem__" +
                                  (workers ? kWorker : kTraining),
                              workers),
                      "input-decode");
    ASSERT_TRUE(found) << workers;
    EXPECT_TRUE(says(found, "Make Photos.__getitem__ cheaper")) << found->fix.summary;
    EXPECT_TRUE(says(found, "or store smaller source files")) << found->fix.summary;
    EXPECT_EQ(found->evidence[1].what, "decoding files");
  }
}

// Nothing of the script is between the DataLoader and the package. The line of the training loop is not it.
TEST(CostlyFunction, MayBeAPackages) {
  const Found found(seen_in("/v/site-packages/PIL/Image.py:2200 Image.resize\n"
                            "/v/site-packages/torchvision/transforms/functional.py:9 resize" +
                            kTraining),
                    "input-decode");
  ASSERT_TRUE(found);
  EXPECT_TRUE(says(found, "Make the transforms cheaper, most of all Image.resize of PIL"))
      << found->fix.summary;
  EXPECT_FALSE(says(found, "smaller source files")) << found->fix.summary;
  EXPECT_EQ(found->fix.location, "/home/a/train.py:88");
}

TEST(CostlyFunction, IsWhatMakesASampleWithoutStackSamples) {
  test::Job job = test::make_loader_job(computing(0, 2));
  EXPECT_TRUE(says(Found(job, "input-decode"), "Make the samples of Images cheaper"));
  job.process().loaders[0].code = "/home/a/data.py:60 Photos.__getitem__";
  const Found found(job, "input-decode");
  EXPECT_TRUE(says(found, "Make Photos.__getitem__ cheaper")) << found->fix.summary;
  EXPECT_EQ(found->fix.location, "/home/a/data.py:60");
}

TEST(CostlyFunction, OfAStreamIsKeptWithoutStreaming) {
  test::Job job = test::make_loader_job(computing(0, 2));
  job.process().loaders[0].code =
      "/v/site-packages/datasets/iterable_dataset.py:2300 IterableDataset.__iter__";
  const Found found(job, "input-decode");
  EXPECT_TRUE(says(found, "without streaming=True")) << found->fix.summary;
  EXPECT_FALSE(says(found, "compute them once")) << found->fix.summary;
}

TEST(CostlyFunction, MovesToTheGpuWhereThereIsOne) {
  test::Job job = test::make_loader_job(computing(0, 2));
  EXPECT_FALSE(says(Found(job, "input-decode"), "GPU"));
  test::set_shares(job, {{Category::InputTransform, 0.8}, {Category::DeviceUnobserved, 0.1}});
  const Found found(job, "input-decode");
  ASSERT_TRUE(found);
  EXPECT_TRUE(says(found, "run them on the GPU")) << found->fix.summary;
}

// Of a job with num_workers=0, "a worker on every core" was no help to read.
TEST(CostlyFunction, SaysWhatLoaderWorkersWouldLeave) {
  const Found two(test::make_loader_job(computing(0, 2)), "input-decode");
  ASSERT_TRUE(two);
  EXPECT_NE(two->title.find("making batches would still take"), std::string::npos) << two->title;
  const Found one(test::make_loader_job(computing(0, 1, 1)), "input-decode");
  ASSERT_TRUE(one);
  EXPECT_NE(one->title.find("more workers do not help on 1 CPU core"), std::string::npos) << one->title;
}

TEST(Decoders, AreThoseOfFiles) {
  const auto decodes = [](const std::string& frame) {
    return model::decodes_files(model::frames_of(frame + "\n/home/a/data.py:41 Photos.__getitem__"));
  };
  EXPECT_TRUE(decodes("/v/site-packages/PIL/JpegImagePlugin.py:9 load_read"));
  EXPECT_TRUE(decodes("/v/site-packages/soundfile.py:9 SoundFile.read"));
  EXPECT_TRUE(decodes("/usr/lib/python3.11/zipfile.py:9 ZipExtFile.read"));
  EXPECT_FALSE(decodes("/home/a/zipfile.py:9 read"));
  EXPECT_FALSE(decodes("/v/site-packages/PIL/Image.py:9 Image.rotate"));
  EXPECT_FALSE(decodes("/v/site-packages/torchvision/datasets/folder.py:245 DatasetFolder.__getitem__"));
  EXPECT_FALSE(decodes("/usr/lib/python3.11/sqlite3/dbapi2.py:9 execute"));
}

}  // namespace
}  // namespace gpuwatch::advise
