// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/input_facts.h"
#include "analyzer/advise/own_data.h"
#include "analyzer/advise/rule.h"
#include "analyzer/advise/storage.h"
#include "analyzer/io/printable.h"

namespace gpuwatch::advise {

extern const Rule kInputRemoteStorage;

namespace {

constexpr Threshold kThresholds[] = {
    kReadWait,
    kReadShare,
    kCacheSpeed,
    {"recorded reading on remote file systems and sockets", kRemoteShare, "of the reading time",
     "the larger part decides what to fix"},
    kOwnDataShare,
    kLeastGain,
};

// How long it takes to copy an epoch's data at the measured throughput of one reader.
std::string copy_words(const InputFacts& facts) {
  uint64_t bytes = 0;
  for (const InputFacts::Epoch& epoch : facts.epochs) bytes = std::max(bytes, epoch.bytes_read);
  if (bytes == 0 || facts.bytes_s() <= 0) return "";
  const double seconds = double(bytes) / facts.bytes_s();
  const std::string time = seconds < 90 ? fmt::format("{:.0f} s", std::max(seconds, 1.0))
                                        : fmt::format("{:.0f} min", seconds / 60);
  return fmt::format(" ({} an epoch, about {} at the measured throughput)", size_words(double(bytes)), time);
}

void name_fix(Finding& finding, const RuleInput& input) {
  const InputFacts& facts = *input.facts;
  finding.fix.change = StorageChange{"local"};
  finding.fix.location = reading_location(input);
  const std::string type = facts.mount && facts.mount->is_remote ? facts.mount->type : "";
  if (type == "9p" || type == "drvfs" || type == "virtiofs")
    finding.fix.summary = "Copy the data into this system's own file system" + copy_words(facts);
  else if (type.empty())
    finding.fix.summary =
        "Download the data to a local disk first" + copy_words(facts) + ", or cache it in the same zone";
  else
    finding.fix.summary = fmt::format("Copy the data from {} to a local disk{}, or cache it there",
                                      io::printable(facts.mount->point), copy_words(facts));
}

std::optional<Finding> without_loader(const RuleInput& input) {
  auto finding = own_data_finding(kInputRemoteStorage, input, OwnDataCause::kReadsRemote);
  if (!finding) return std::nullopt;
  const model::Mount* mount = input.own_data->mount;
  finding->title = fmt::format("Remote storage: {}, which reads from {}", own_data_words(input),
                               mount ? io::printable(mount->type) : "sockets");
  finding->fix.summary = mount ? fmt::format("Copy the data from {} to a local disk, or cache it there",
                                             io::printable(mount->point))
                               : "Download the data to a local disk first, or cache it in the same zone";
  finding->fix.change = StorageChange{"local"};
  return finding;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (input.own_data) return without_loader(input);
  if (reading_of(input) != Reading::kRemote) return std::nullopt;
  const double ceiling = ceiling_without_reading(input), lost = share_of_reading(input, ceiling);
  if (lost < 1 - 1 / kLeastSpeedup) return std::nullopt;
  const InputFacts& facts = *input.facts;
  Finding finding = make_finding(kInputRemoteStorage, input, lost);
  const std::string source = facts.receive_ns > facts.remote_ns ? "sockets"
                             : facts.mount                      ? io::printable(facts.mount->type)
                                                                : "a remote file system";
  finding.title = fmt::format("Remote storage: data is read from {}, {}", source, data_stall_words(input));
  finding.evidence = reading_evidence(input);
  if (facts.opens + facts.reads > 0)
    finding.evidence.push_back(
        {"mean open or read call", facts.io_ns / double(facts.opens + facts.reads) / 1e3, "us"});
  name_fix(finding, input);
  finding.ceiling_speedup = ceiling;
  return finding;
}

}  // namespace

const Rule kInputRemoteStorage{
    "input-remote-storage",
    "Training waits for data that is read over a network: from a network file system, a mounted object store "
    "or sockets.",
    "Most of the recorded reading is on a mount of a remote type (NFS, SMB, FUSE of an object store, 9p, "
    "Lustre, ...) or receives from sockets. Slow reading from a local disk is `input-storage`.",
    "Copy the data to a local disk (the finding says how large an epoch is and how long the copy takes at "
    "the measured throughput), add a cache, or keep storage and job in the same zone. Under WSL and in "
    "virtual machines: use the system's own file system.",
    kThresholds,
    evaluate,
    attribute::Bottleneck::Input,
    true};

}  // namespace gpuwatch::advise
