// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/input_facts.h"
#include "analyzer/advise/rule.h"
#include "analyzer/advise/storage.h"

namespace gpuwatch::advise {

extern const Rule kInputSmallFiles;

namespace {

constexpr double kShardBytes = 256.0 * 1024 * 1024;

constexpr Threshold kThresholds[] = {
    kReadWait,
    kReadShare,
    kCacheSpeed,
    {"files opened", kLeastFiles, "a sample", "fewer, and files hold many samples already"},
    {"bytes read", kSmallFileBytes, "bytes a file",
     "a disk that reads 250 MB/s moves so much in the millisecond that finding the file takes"},
    {"size of a shard", kShardBytes, "bytes", "WebDataset and MosaicML's streaming advise 64 MiB to 1 GiB"},
    kLeastGain,
};

std::optional<Finding> evaluate(const RuleInput& input) {
  if (reading_of(input) != Reading::kSmallFiles) return std::nullopt;
  const double ceiling = ceiling_without_reading(input);
  if (ceiling < kLeastSpeedup) return std::nullopt;
  const InputFacts& facts = *input.facts;
  const double file_bytes = double(facts.bytes_read) / double(facts.opens);

  Finding finding = make_finding(kInputSmallFiles, input, 1 - 1 / ceiling);
  finding.title = "Samples are many small files: opening them takes the time";
  finding.evidence = reading_evidence(input);
  finding.evidence.push_back({"bytes a file", file_bytes / 1024, "KiB"});
  if (facts.open_ns + facts.read_ns > 0)
    finding.evidence.push_back(
        {"of recorded reading in open and stat", 100 * facts.open_ns / (facts.open_ns + facts.read_ns), "%"});
  const std::string files = fmt::format("{:.0f}", std::max(1.0, kShardBytes / std::max(file_bytes, 1.0)));
  finding.fix.change = NamedChange{"shards", files};
  finding.fix.summary = fmt::format(
      "pack the files into shards of 256 MiB, about {} files each (WebDataset, TFRecord, LMDB)", files);
  finding.fix.location = reading_location(input);
  finding.ceiling_speedup = ceiling;
  return finding;
}

}  // namespace

const Rule kInputSmallFiles{
    "input-small-files",
    "Each sample is a small file of its own: training waits for files to be found and opened.",
    "Fetches spend their time in open, stat and read, open a file for most samples and read little from "
    "each. "
    "Few large reads are `input-storage`; on a network it is `input-remote-storage` first.",
    "Shards that hold many samples and are read in sequence (WebDataset, TFRecord, LMDB, MosaicML "
    "streaming), "
    "with the number of files for a shard.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
