// SPDX-License-Identifier: Apache-2.0
// A loader's setting in the words of the framework that built the loader. The change itself stays PyTorch's.
#include "analyzer/advise/loader_words.h"

#include <gtest/gtest.h>

#include "analyzer/advise/diagnose.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::advise {
namespace {

constexpr LoaderChange kFourWorkers{LoaderOption::kNumWorkers, 4};

SettingWords words_for(const std::string& framework, const std::string& class_name,
                       const LoaderChange& change = kFourWorkers) {
  model::Loader loader;
  loader.framework = framework;
  loader.class_name = class_name;
  return setting_words(change, &loader);
}

TEST(LoaderWords, OfTheTrainer) {
  const SettingWords words = words_for("transformers", "DataLoaderShard");
  EXPECT_EQ(words.setting, "dataloader_num_workers=4");
  EXPECT_EQ(words.snippet,
            "TrainingArguments(..., dataloader_num_workers=4)  # or --dataloader_num_workers 4");
}

TEST(LoaderWords, OfTimm) {
  EXPECT_EQ(words_for("timm", "DataLoader").snippet,
            "create_loader(..., num_workers=4)  # timm's train.py: --workers 4");
}

TEST(LoaderWords, OfPyTorchAreTheOptionsName) {
  const SettingWords words = words_for("torch", "DataLoader");
  EXPECT_EQ(words.setting, "num_workers=4");
  EXPECT_EQ(words.snippet, "DataLoader(..., num_workers=4)");
  EXPECT_EQ(words_for("torch", "DataLoader", {LoaderOption::kInOrder, false}).setting, "in_order=False");
}

// A framework need not have words for every option.
TEST(LoaderWords, OfAnOptionThatTheFrameworkDoesNotRename) {
  EXPECT_EQ(words_for("timm", "DataLoader", {LoaderOption::kPrefetchFactor, 8}).setting, "prefetch_factor=8");
}

TEST(LoaderWords, NameTheClassThatIsWritten) {
  EXPECT_EQ(words_for("torchdata", "StatefulDataLoader").snippet, "StatefulDataLoader(..., num_workers=4)");
  EXPECT_EQ(words_for("torch_geometric", "NodeLoader").snippet, "NodeLoader(..., num_workers=4)");
  EXPECT_EQ(words_for("torch", "main.<locals>.Mine").snippet, "DataLoader(..., num_workers=4)");
}

// The class name comes from the job.
TEST(LoaderWords, ClassNameCannotForgeAFormat) {
  EXPECT_EQ(words_for("torch", "{0}{2}").snippet, "{0}{2}(..., num_workers=4)");
  EXPECT_EQ(words_for("lightning", "{2}").setting, "num_workers=4 in train_dataloader()");
}

TEST(LoaderWords, WithoutALoaderArePyTorchs) {
  const SettingWords words = setting_words(kFourWorkers, nullptr);
  EXPECT_EQ(words.setting, "num_workers=4");
  EXPECT_EQ(words.snippet, "DataLoader(..., num_workers=4)");
}

TEST(Propose, FillsTheFix) {
  test::Job job = test::make_loader_job({});
  job.process().loaders[0].framework = "transformers";
  const RuleInput input{.run = job.run, .rank = job.rank(), .process = job.process()};
  Finding finding;
  propose(finding, input, kFourWorkers);
  EXPECT_EQ(finding.fix.summary, "Set dataloader_num_workers=4");
  EXPECT_EQ(finding.fix.location, "/home/a/train.py:88");
  EXPECT_EQ(setting_name(finding.fix.change), "num_workers");
  EXPECT_EQ(setting_value(finding.fix.change), "4");
}

// Two workers over a dataset that does not ask which of them it runs in would train on every sample twice.
TEST(LoaderWords, SayHowAnIterableDatasetIsSplit) {
  test::Job job = test::make_loader_job({.workers = 0});
  model::Loader& loader = job.process().loaders[0];
  loader.dataset = "Shards";
  loader.repeats_per_worker = true;
  const Diagnosis diagnosis = diagnose(job.run, job.ranks);
  const Finding* workers = find(diagnosis.findings, "dataloader-workers");
  ASSERT_NE(workers, nullptr);
  EXPECT_NE(workers->fix.summary.find("let Shards.__iter__ split the data by get_worker_info()"),
            std::string::npos);
  loader.repeats_per_worker = false;
  EXPECT_EQ(diagnose(job.run, job.ranks).findings.front().fix.summary.find("get_worker_info"),
            std::string::npos);
}

}  // namespace
}  // namespace gpuwatch::advise
