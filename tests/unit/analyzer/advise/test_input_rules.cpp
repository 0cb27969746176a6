// SPDX-License-Identifier: Apache-2.0
// The rules about reading, collating and the order of batches: the case that has the cause, and the
// neighbours that look alike.
#include <gtest/gtest.h>

#include "analyzer/advise/diagnose.h"
#include "tests/unit/analyzer/advise/found.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using test::LoaderJob;

constexpr uint32_t kMountText = 7;

// A worker that takes 10 ms a batch beside 4 ms of training, 9 of them in reading `bytes` with `opens`.
LoaderJob reading(uint64_t bytes, uint32_t opens) {
  LoaderJob job;
  job.cpu_count = 1;
  job.describe = [=](model::Batch& batch) {
    batch.fetch_blocked_ns = batch.fetch_io_ns = 9'000'000;
    batch.bytes_read = bytes;
    batch.disk_bytes = bytes;
    batch.opens = opens;
    batch.reads = std::max(opens, 8u);
  };
  return job;
}

// The worker's own process, with one recorded read a fetch.
void add_worker_trace(test::Job& job, trace::OpClass op_class, uint32_t mount_text) {
  model::Process worker;
  worker.pid = 5000;
  worker.worker_of = 0;
  model::Thread thread;
  for (const model::Batch& batch : job.process().epochs[0].batches) {
    thread.calls.push_back(
        {batch.fetch.begin, batch.fetch.end, 0, 0, model::kNone, 0, trace::OpClass::Fetch, 0});
    model::HostCall call{batch.fetch.begin + 1000, batch.fetch.begin + 9'000'000, 0, 0, 0, 0, op_class, 0};
    call.detail = uint32_t(thread.io_details.size());
    thread.io_details.emplace_back(4096, 0, mount_text, 0);
    thread.calls.push_back(call);
  }
  worker.threads = {thread};
  job.run.processes.push_back(worker);
  for (model::LoaderEpoch& epoch : job.process().epochs)
    for (model::Worker& of_epoch : epoch.workers) of_epoch.process = 1;
}

Diagnosis diagnose_job(const test::Job& job) {
  return diagnose(job.run, job.ranks);
}

TEST(InputStorage, IsLocalReadingThatIsSlowerThanThePageCache) {
  const test::Job job = test::make_loader_job(reading(8'000'000, 0));
  const Diagnosis diagnosis = diagnose_job(job);
  const Finding* finding = find(diagnosis, "input-storage");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(setting_value(finding->fix.change), "2e+03 MB/s");  // 8 MB in the 4 ms of a step
  EXPECT_EQ(find(diagnosis, "input-small-files"), nullptr);
  EXPECT_EQ(find(diagnosis, "input-remote-storage"), nullptr);
}

// One worker reads: nothing tells whether storage serves three as fast.
TEST(InputStorage, ComesAfterTheWorkersThatMayHideIt) {
  const Diagnosis diagnosis = diagnose_job(test::make_loader_job(reading(8'000'000, 0)));
  ASSERT_FALSE(diagnosis.findings.empty());
  EXPECT_EQ(diagnosis.findings.front().id, "dataloader-workers");
  const Finding* finding = find(diagnosis, "input-storage");
  ASSERT_NE(finding, nullptr);
  EXPECT_FALSE(finding->prediction);
  EXPECT_TRUE(finding->fix.summary.starts_with("If more workers gain little"));
}

TEST(InputStorage, IsSilentAtTheSpeedOfThePageCache) {
  const test::Job job = test::make_loader_job(reading(40'000'000, 0));  // in 9 ms
  EXPECT_EQ(find(diagnose_job(job), "input-storage"), nullptr);
}

TEST(InputStorage, IsSilentWhereTransformsTakeTheTime) {
  LoaderJob wanted = reading(8'000'000, 0);
  wanted.describe = [](model::Batch& batch) {
    batch.fetch_blocked_ns = 0;
    batch.fetch_io_ns = 500'000;
    batch.bytes_read = 100'000;
    batch.reads = 8;
  };
  EXPECT_EQ(find(diagnose_job(test::make_loader_job(wanted)), "input-storage"), nullptr);
}

TEST(InputSmallFiles, NamesHowManyGoIntoAShard) {
  const test::Job job = test::make_loader_job(reading(64 * 16384, 64));
  const Diagnosis diagnosis = diagnose_job(job);
  const Finding* finding = find(diagnosis, "input-small-files");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(setting_value(finding->fix.change), "16384");  // 256 MiB of 16 KiB
  EXPECT_TRUE(finding->ceiling_speedup);
  EXPECT_EQ(find(diagnosis, "input-storage"), nullptr);
}

TEST(InputSmallFiles, IsSilentWhereFilesAreLarge) {
  const test::Job job = test::make_loader_job(reading(6'400'000, 2));
  EXPECT_EQ(find(diagnose_job(job), "input-small-files"), nullptr);
}

TEST(InputRemoteStorage, IsReadingFromAMountOfAnotherMachine) {
  for (const bool is_remote : {true, false}) {
    test::Job job = test::make_loader_job(reading(8'000'000, 0));
    job.run.texts[kMountText] = "/data";
    job.process().mounts = {{"/data", is_remote ? "nfs4" : "ext4", "server:/data", 42, is_remote}};
    add_worker_trace(job, trace::OpClass::Read, kMountText);
    const Diagnosis diagnosis = diagnose_job(job);
    const Finding* finding = find(diagnosis, "input-remote-storage");
    ASSERT_EQ(finding != nullptr, is_remote);
    EXPECT_EQ(find(diagnosis, "input-storage") != nullptr, !is_remote);
    if (!finding) continue;
    EXPECT_NE(finding->title.find("nfs4"), std::string::npos);
    EXPECT_NE(finding->fix.summary.find("/data"), std::string::npos);
    EXPECT_NE(finding->fix.summary.find("1.49 GiB an epoch, about 2 s"), std::string::npos);
  }
}

TEST(InputRemoteStorage, IsReceivingFromSockets) {
  test::Job job = test::make_loader_job(reading(8'000'000, 0));
  add_worker_trace(job, trace::OpClass::Receive, 0);
  EXPECT_NE(find(diagnose_job(job), "input-remote-storage"), nullptr);
}

// 200 batches as two epochs of 100; `second_io` is how long the second reads, against the first.
test::Job two_epochs(double second_io, uint64_t memory_bytes) {
  LoaderJob wanted = reading(8'000'000, 0);
  test::Job job = test::make_loader_job(wanted);
  model::Process& process = job.process();
  model::LoaderEpoch second = process.epochs[0];
  process.epochs[0].batches.resize(100);
  second.batches.erase(second.batches.begin(), second.batches.begin() + 100);
  for (model::Batch& batch : second.batches) batch.fetch_io_ns = model::Ns(9e6 * second_io);
  for (model::Batch& batch : second.batches) batch.fetch_blocked_ns = batch.fetch_io_ns;
  second.start.begin = second.start.end = second.batches[0].fetch.begin;
  process.epochs.push_back(second);
  process.loaders[0].batches = 100;
  model::MachineSample sample{};
  sample.time = second.start.begin;
  sample.memory_available_bytes = memory_bytes;
  process.machine_samples = {sample};
  return job;
}

TEST(InputCacheable, IsReadingTheSameAgainBesideFreeMemory) {
  const Finding* finding = nullptr;
  const Diagnosis diagnosis = diagnose_job(two_epochs(1, 2'000'000'000));
  ASSERT_NE(finding = find(diagnosis, "input-cacheable"), nullptr);
  EXPECT_EQ(setting_value(finding->fix.change), "763 MiB");  // 100 times 8 MB
}

// tf.data, whose fetches are not recorded; the main loader of the steps all the same.
const Finding* find_in_pipeline(const char* stages, size_t epochs, Diagnosis& diagnosis) {
  test::Job job = test::make_loader_job({.workers = 0, .batches = 100});
  model::Process& process = job.process();
  process.loaders[0].framework = "tf.data";
  process.loaders[0].dataset = stages;
  process.epochs.resize(1);
  for (model::Batch& batch : process.epochs[0].batches) batch.fetch = {0, 0};
  while (process.epochs.size() < epochs) process.epochs.push_back(process.epochs.front());
  test::set_shares(job, {{Category::InputUnknown, 0.5}});
  diagnosis = diagnose_job(job);
  return find(diagnosis, "input-cacheable");
}

TEST(InputCacheable, IsAPipelineOfAPythonGeneratorThatRunsAgain) {
  Diagnosis diagnosis;
  const Finding* finding = find_in_pipeline("Batch < Map < FlatMap (from_generator)", 2, diagnosis);
  ASSERT_NE(finding, nullptr);
  EXPECT_NEAR(finding->ceiling_speedup.value_or(0), 2, 0.01);
  EXPECT_EQ(find_in_pipeline("Batch < Map < FlatMap (from_generator)", 1, diagnosis), nullptr);
  EXPECT_EQ(find_in_pipeline("Batch < Cache < FlatMap (from_generator)", 2, diagnosis), nullptr);
  // Cores may be idle, and stages beside each other use them.
  EXPECT_EQ(find_in_pipeline("Batch < Map < Range", 2, diagnosis), nullptr);
}

TEST(InputCacheable, IsSilentWhereItDoesNotFitOrIsCachedAlready) {
  EXPECT_EQ(find(diagnose_job(two_epochs(1, 900'000'000)), "input-cacheable"), nullptr);
  EXPECT_EQ(find(diagnose_job(two_epochs(0.4, 2'000'000'000)), "input-cacheable"), nullptr);
}

// Training is so quick that it waits for any number of workers.
TEST(CollateCost, IsCollatingThatTakesMostOfTheFetch) {
  LoaderJob wanted;
  wanted.batches = 1000;
  wanted.think_ms = [](size_t) { return 0.02; };
  wanted.describe = [](model::Batch& batch) { batch.collate_ns = 7'000'000; };
  const Diagnosis diagnosis = diagnose_job(test::make_loader_job(wanted));
  const Finding* finding = find(diagnosis, "collate-cost");
  ASSERT_NE(finding, nullptr);
  ASSERT_TRUE(finding->prediction);
  const Finding* workers = find(diagnosis, "dataloader-workers");
  ASSERT_NE(workers, nullptr);
  LoaderJob fixed = wanted;
  fixed.workers = std::stoi(setting_value(workers->fix.change));
  fixed.service_ms = [](size_t) { return 3.0; };
  const double really = test::loader_schedule(fixed).mean_step_ms();
  EXPECT_LE(finding->prediction->value.low, really);
  EXPECT_GE(finding->prediction->value.high, really);
}

// 2048 samples of a TensorDataset: their tensors have one shape already.
TEST(CollateCost, OfManySamplesInPyTorchsOwnCodeIsToIndexWholeBatches) {
  constexpr uint32_t kStack = 91, kOwn = 92;
  for (const uint32_t text : {kStack, kOwn}) {
    LoaderJob wanted;
    wanted.workers = 0;
    wanted.cpu_count = 1;  // no worker helps
    wanted.cpu_share = 1;
    wanted.describe = [](model::Batch& batch) { batch.collate_ns = 7'000'000; };
    test::Job job = test::make_loader_job(wanted);
    const std::string fetch =
        "/v/site-packages/torch/utils/data/_utils/fetch.py:55 fetch\n/home/a/train.py:40 main";
    job.run.texts[kStack] =
        "/v/site-packages/torch/utils/data/_utils/collate.py:272 collate_tensor_fn\n" + fetch;
    job.run.texts[kOwn] = "/home/a/train.py:12 collate\n" + fetch;
    for (const model::Batch& batch : job.process().epochs[0].batches)
      job.process().threads[0].worker_stacks.push_back(
          {batch.fetch.end - 1'000'000, 10'000'000, text, job.process().pid});
    const Diagnosis diagnosis = diagnose_job(job);
    const Finding* finding = find(diagnosis, "collate-cost");
    ASSERT_NE(finding, nullptr);
    EXPECT_EQ(finding->fix.summary.starts_with("Index whole batches"), text == kStack)
        << finding->fix.summary;
  }
}

TEST(CollateCost, IsSilentWhereSamplesTakeTheTime) {
  LoaderJob wanted;
  wanted.describe = [](model::Batch& batch) { batch.collate_ns = 2'000'000; };
  EXPECT_EQ(find(diagnose_job(test::make_loader_job(wanted)), "collate-cost"), nullptr);
}

// As many workers as cores; every ninth batch takes ten times as long.
test::Job one_slow_batch(const char* torch) {
  LoaderJob wanted;
  wanted.workers = 3;
  wanted.cpu_count = 3;
  wanted.cpu_share = 1;
  wanted.batches = 300;
  wanted.service_ms = [](size_t i) { return i % 9 == 8 ? 150.0 : 15.0; };
  wanted.think_ms = [](size_t) { return 10.0; };
  test::Job job = test::make_loader_job(wanted);
  job.process().facts["torch"] = torch;
  test::set_shares(job, {{Category::InputHeadOfLine, 0.4}, {Category::InputTransform, 0.05}});
  return job;
}

TEST(HeadOfLine, IsOneBatchThatHoldsBackOthers) {
  const Diagnosis diagnosis = diagnose_job(one_slow_batch("2.13.0+cpu"));
  const Finding* finding = find(diagnosis, "dataloader-head-of-line");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->fix.snippet, "DataLoader(..., in_order=False)");
  // All cores compute, so how much the workers slow each other is open: too wide for a prediction.
  ASSERT_TRUE(finding->ceiling_speedup && finding->too_wide);
  EXPECT_GT(finding->too_wide->speedup.expected, 1.2);
}

// A job without workers: what workers will do is no share of its steps.
TEST(HeadOfLine, OfProposedWorkersIsSaidOfThem) {
  LoaderJob wanted;
  wanted.workers = 0;
  wanted.cpu_count = 3;
  wanted.cpu_share = 1;
  wanted.batches = 300;
  wanted.service_ms = [](size_t i) { return i % 9 == 8 ? 150.0 : 15.0; };
  wanted.think_ms = [](size_t) { return 10.0; };
  test::Job job = test::make_loader_job(wanted);
  job.process().facts["torch"] = "2.13.0+cpu";
  test::set_shares(job, {{Category::InputTransform, 0.75}});
  const Diagnosis diagnosis = diagnose_job(job);
  const Finding* finding = find(diagnosis, "dataloader-head-of-line");
  ASSERT_NE(finding, nullptr);
  EXPECT_NE(finding->title.find("would block finished ones"), std::string::npos) << finding->title;
  EXPECT_EQ(finding->evidence.front().what, "time of the slowest batch");
}

TEST(HeadOfLine, NamesNoOptionThatTheVersionHasNot) {
  const Diagnosis diagnosis = diagnose_job(one_slow_batch("2.5.1"));
  const Finding* finding = find(diagnosis, "dataloader-head-of-line");
  ASSERT_NE(finding, nullptr);
  EXPECT_TRUE(finding->fix.snippet.empty());
  EXPECT_NE(finding->fix.summary.find("Bucket samples"), std::string::npos);
}

TEST(HeadOfLine, IsSilentWhereAllBatchesAreSlow) {
  LoaderJob wanted;
  wanted.workers = 3;
  wanted.service_ms = [](size_t) { return 60.0; };
  test::Job job = test::make_loader_job(wanted);
  test::set_shares(job, {{Category::InputHeadOfLine, 0.05}, {Category::InputTransform, 0.6}});
  EXPECT_EQ(find(diagnose_job(job), "dataloader-head-of-line"), nullptr);
}

// A loader that keeps up; the batch of 4 samples has so many elements and its longest sample so many.
Diagnosis diagnose_shapes(std::function<void(model::Batch&)> describe) {
  LoaderJob job;
  job.service_ms = [](size_t) { return 2.0; };
  job.describe = [=](model::Batch& batch) {
    batch.samples = batch.samples_seen = 4;
    describe(batch);
  };
  return diagnose_job(test::make_loader_job(job));
}

TEST(PaddingWaste, ComparesSamplesWithTheirBatch) {
  const Diagnosis diagnosis = diagnose_shapes([](model::Batch& batch) {
    batch.longest_sample = batch.index % 2 ? 90 : 110;
    batch.padded_elements = 4 * batch.longest_sample;
    batch.sample_elements = batch.padded_elements / 2;
  });
  const Finding* finding = find(diagnosis, "padding-waste");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(setting_name(finding->fix.change), "batch_sampler");
  EXPECT_DOUBLE_EQ(finding->evidence[0].value, 50);
  EXPECT_GT(*finding->ceiling_speedup, 2);  // of work in proportion to the square a quarter is left
  EXPECT_LE(*finding->ceiling_speedup, 4);
}

// Workers write the padding, too: batches of similar length gained 2.3 times where compute alone bounded
// them by 1.6.
TEST(PaddingWaste, IsBoundedWithWhatCollatesAndSendsIt) {
  const auto bound = [](double collating) {
    LoaderJob wanted;
    wanted.service_ms = [](size_t) { return 2.0; };  // no other change gains anything
    wanted.describe = [](model::Batch& batch) {
      batch.samples = batch.samples_seen = 4;
      batch.longest_sample = batch.index % 2 ? 90 : 110;
      batch.padded_elements = 4 * batch.longest_sample;
      batch.sample_elements = batch.padded_elements / 2;
    };
    test::Job job = test::make_loader_job(wanted);
    test::set_shares(job, {{Category::InputCollate, collating},
                           {Category::InputTransform, 0.4 - collating},
                           {Category::Compute, 0.3}});
    const Diagnosis diagnosis = diagnose_job(job);
    const Finding* finding = find(diagnosis, "padding-waste");
    return finding ? finding->ceiling_speedup.value_or(0) : 0;
  };
  const double alone = bound(0), with_collating = bound(0.4);
  ASSERT_GT(alone, 1);
  EXPECT_NEAR(1 - 1 / with_collating, 1 - 1 / alone + 0.5 * 0.4, 0.01);
}

TEST(PaddingWaste, TellsAFixedLength) {
  const Diagnosis diagnosis = diagnose_shapes([](model::Batch& batch) {
    batch.longest_sample = 100;
    batch.sample_elements = 4 * 90;
    batch.padded_elements = 4 * 512;
  });
  const Finding* finding = find(diagnosis, "padding-waste");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(setting_name(finding->fix.change), "padding");
}

// 81% of the elements were text, and batches of similar length gained 1.37 times. A gain of less than a tenth
// is not worth the randomness.
TEST(PaddingWaste, IsWorthNamingFromATenthOn) {
  const auto with_texts_of = [](double share) {
    return diagnose_shapes([=](model::Batch& batch) {
      batch.longest_sample = batch.index % 2 ? 90 : 110;
      batch.padded_elements = 4 * batch.longest_sample;
      batch.sample_elements = uint64_t(share * double(batch.padded_elements));
    });
  };
  EXPECT_NE(find(with_texts_of(0.81), "padding-waste"), nullptr);
  EXPECT_EQ(find(with_texts_of(0.93), "padding-waste"), nullptr);
}

TEST(PaddingWaste, TakesLongSamplesForWhatTheyAre) {
  EXPECT_EQ(find(diagnose_shapes([](model::Batch& batch) {
                   batch.longest_sample = 512;
                   batch.sample_elements = batch.padded_elements = 4 * 512;
                 }),
                 "padding-waste"),
            nullptr);
  EXPECT_EQ(find(diagnose_shapes([](model::Batch& batch) { batch.samples_seen = 0; }), "padding-waste"),
            nullptr);
}

}  // namespace
}  // namespace gpuwatch::advise
