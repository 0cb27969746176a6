// SPDX-License-Identifier: Apache-2.0
// A fix in the words of the framework that made the loader; its setting and value stay torch's.
#include "analyzer/advise/words.h"

#include <gtest/gtest.h>

namespace gpuwatch::advise {
namespace {

Finding more_workers() {
  Finding finding;
  finding.fix = {.summary = "num_workers=4, then look again",
                 .setting = "num_workers",
                 .value = "4",
                 .location = "",
                 .snippet = "DataLoader(..., num_workers=4)"};
  return finding;
}

Fix in_words_of(const std::string& framework, const std::string& class_name,
                Finding finding = more_workers()) {
  model::Loader loader;
  loader.framework = framework;
  loader.class_name = class_name;
  use_words_of_framework(finding, &loader);
  EXPECT_EQ(finding.fix.setting, "num_workers");
  EXPECT_EQ(finding.fix.value, "4");
  return finding.fix;
}

TEST(Words, OfTheTrainer) {
  const Fix fix = in_words_of("transformers", "DataLoaderShard");
  EXPECT_EQ(fix.summary, "dataloader_num_workers=4, then look again");
  EXPECT_EQ(fix.snippet, "TrainingArguments(..., dataloader_num_workers=4)  # or --dataloader_num_workers 4");
}

TEST(Words, OfTimm) {
  EXPECT_EQ(in_words_of("timm", "DataLoader").snippet,
            "create_loader(..., num_workers=4)  # timm's train.py: --workers 4");
}

TEST(Words, OfTorchStayAsTheyAre) {
  const Fix fix = in_words_of("torch", "DataLoader");
  EXPECT_EQ(fix.summary, "num_workers=4, then look again");
  EXPECT_EQ(fix.snippet, "DataLoader(..., num_workers=4)");
}

TEST(Words, NameTheClassThatIsWritten) {
  EXPECT_EQ(in_words_of("torchdata", "StatefulDataLoader").snippet, "StatefulDataLoader(..., num_workers=4)");
  EXPECT_EQ(in_words_of("torch_geometric", "NodeLoader").snippet, "NodeLoader(..., num_workers=4)");
  EXPECT_EQ(in_words_of("torch", "main.<locals>.Mine").snippet, "DataLoader(..., num_workers=4)");
}

TEST(Words, ValueCannotForgeAFormat) {
  Finding finding = more_workers();
  finding.fix.summary = "num_workers={0}{1}";
  finding.fix.value = "{0}{1}";
  model::Loader loader;
  loader.framework = "lightning";
  loader.class_name = "{2}";
  use_words_of_framework(finding, &loader);
  EXPECT_EQ(finding.fix.summary, "num_workers={0}{1} in train_dataloader()");
}

TEST(Words, WithoutALoaderNothingChanges) {
  Finding finding = more_workers();
  use_words_of_framework(finding, nullptr);
  EXPECT_EQ(finding.fix.summary, "num_workers=4, then look again");
}

}  // namespace
}  // namespace gpuwatch::advise
