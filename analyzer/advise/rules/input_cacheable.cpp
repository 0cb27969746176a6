// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/input_facts.h"
#include "analyzer/advise/rule.h"
#include "analyzer/advise/storage.h"

namespace gpuwatch::advise {

extern const Rule kInputCacheable;

namespace {

constexpr double kSameBytes = 0.10;
constexpr double kSameTime = 0.70;
constexpr double kRoom = 0.80;

constexpr Threshold kThresholds[] = {
    kReadWait,
    kReadShare,
    {"difference of the bytes that epochs read", kSameBytes, "of the first",
     "random crops and lengths differ by less; another subset by more"},
    {"reading time of later epochs", kSameTime, "of the first epoch",
     "less, and the page cache is already doing it"},
    {"bytes an epoch", kRoom, "of the memory available", "the rest is for workers and batches"},
    kLeastGain,
};

// Every epoch reads the same amount, and reading it again takes as long.
bool reads_the_same_again(const std::vector<InputFacts::Epoch>& epochs) {
  if (epochs.size() < 2 || epochs.front().bytes_read == 0) return false;
  const InputFacts::Epoch& first = epochs.front();
  return std::all_of(epochs.begin() + 1, epochs.end(), [&](const InputFacts::Epoch& epoch) {
    const double difference = std::abs(double(epoch.bytes_read) - double(first.bytes_read));
    return difference <= kSameBytes * double(first.bytes_read) && epoch.io_ns >= kSameTime * first.io_ns;
  });
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (reading_of(input) == Reading::kNoMatter) return std::nullopt;
  const InputFacts& facts = *input.facts;
  if (!reads_the_same_again(facts.epochs)) return std::nullopt;
  const double bytes = double(facts.epochs.front().bytes_read);
  // Each rank of the host reads its own share.
  if (bytes * input.ranks_on_host > kRoom * double(facts.memory_available_bytes)) return std::nullopt;
  const double ceiling = ceiling_without_reading(input);
  if (ceiling < kLeastSpeedup) return std::nullopt;

  Finding finding = make_finding(kInputCacheable, input, 1 - 1 / ceiling);
  finding.title = "Each epoch reads the same bytes again, and they would fit in memory";
  finding.evidence = reading_evidence(input);
  finding.evidence.push_back({"read in each epoch", bytes / 1e6, "MB"});
  finding.evidence.push_back({"memory available", double(facts.memory_available_bytes) / 1e6, "MB"});
  finding.evidence.push_back({"epochs", double(facts.epochs.size()), "epochs"});
  finding.fix.change = NamedChange{"cache", size_words(bytes)};
  finding.fix.summary = fmt::format(
      "keep the {} of an epoch in memory ({} are free): load them once before the workers start, or copy "
      "them "
      "to /dev/shm and memory-map them",
      size_words(bytes), size_words(double(facts.memory_available_bytes)));
  finding.fix.location = reading_location(input);
  finding.ceiling_speedup = ceiling;
  return finding;
}

}  // namespace

const Rule kInputCacheable{
    "input-cacheable",
    "Every epoch reads the same bytes from slow storage although they would fit in memory.",
    "Whole epochs over the loader that read the same number of bytes, the later ones no quicker than the "
    "first, while memory for all of them is free. Where the later epochs are quick, the page cache holds "
    "them "
    "already.",
    "Load the data once and keep it: in the dataset before the workers start (they share it), in /dev/shm, "
    "or "
    "memory-mapped.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
