// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/input_facts.h"
#include "analyzer/advise/own_data.h"
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
    {"files opened", kLeastFiles, "a sample", "below it a file already holds several samples"},
    {"bytes read", kSmallFileBytes, "bytes a file",
     "a disk that reads 250 MB/s transfers this much in the millisecond that finding a file takes"},
    {"size of a shard", kShardBytes, "bytes",
     "WebDataset and MosaicML's streaming recommend 64 MiB to 1 GiB"},
    kOwnDataShare,
    kLeastGain,
};

std::optional<Finding> without_loader(const RuleInput& input) {
  auto finding = own_data_finding(kInputSmallFiles, input, OwnDataCause::kReadsFiles);
  if (!finding || input.own_data->files < 1) return std::nullopt;
  finding->title = fmt::format("Small files: {}, which opens and reads files", own_data_words(input));
  finding->evidence.push_back({"files opened slowly enough to be recorded", input.own_data->files, "files"});
  finding->fix.summary =
      "Pack the files into shards of 256 MiB (WebDataset, TFRecord, LMDB), or keep them in memory";
  finding->fix.change = NamedChange{"shards", ""};
  return finding;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (input.own_data) return without_loader(input);
  if (reading_of(input) != Reading::kSmallFiles) return std::nullopt;
  const double ceiling = ceiling_without_reading(input), lost = share_of_reading(input, ceiling);
  if (lost < 1 - 1 / kLeastSpeedup) return std::nullopt;
  const InputFacts& facts = *input.facts;
  const double file_bytes = double(facts.bytes_read) / double(facts.opens);

  Finding finding = make_finding(kInputSmallFiles, input, lost);
  finding.title =
      fmt::format("Small files: a batch opens {:.3g} files of {:.3g} KiB, {}",
                  facts.per_batch(double(facts.opens)), file_bytes / 1024, data_stall_words(input));
  finding.evidence = reading_evidence(input);
  finding.evidence.push_back({"bytes read", file_bytes / 1024, "KiB a file"});
  if (facts.open_ns + facts.read_ns > 0)
    finding.evidence.push_back({"open and stat calls", 100 * facts.open_ns / (facts.open_ns + facts.read_ns),
                                "% of the recorded file I/O"});
  const std::string files = fmt::format("{:.0f}", std::max(1.0, kShardBytes / std::max(file_bytes, 1.0)));
  finding.fix.change = NamedChange{"shards", files};
  finding.fix.summary =
      fmt::format("Pack about {} files into each shard of 256 MiB (WebDataset, TFRecord, LMDB)", files);
  finding.fix.location = reading_location(input);
  finding.ceiling_speedup = ceiling;
  return finding;
}

}  // namespace

const Rule kInputSmallFiles{
    "input-small-files",
    "Each sample is a separate small file, and training waits while files are found and opened.",
    "Fetches spend their time in open, stat and read, open about one file a sample and read little from "
    "each. Few large reads are `input-storage`, and a remote file system is `input-remote-storage` first.",
    "Pack the samples into shards that are read sequentially (WebDataset, TFRecord, LMDB, MosaicML "
    "streaming). The finding says how many files go into a shard.",
    kThresholds,
    evaluate,
    attribute::Bottleneck::Input,
    true};

}  // namespace gpuwatch::advise
