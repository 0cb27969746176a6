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
    {"difference of the bytes that passes read", kSameBytes, "of the first",
     "random crops and lengths differ by less; another subset by more"},
    {"reading time of later passes", kSameTime, "of the first pass",
     "less, and the page cache is already doing it"},
    {"bytes a pass", kRoom, "of the memory available", "the rest is for workers and batches"},
    kLeastGain,
};

// Every pass reads the same amount, and reading it again takes as long.
bool reads_the_same_again(const std::vector<InputFacts::Pass>& passes) {
  if (passes.size() < 2 || passes.front().bytes_read == 0) return false;
  const InputFacts::Pass& first = passes.front();
  return std::all_of(passes.begin() + 1, passes.end(), [&](const InputFacts::Pass& pass) {
    const double difference = std::abs(double(pass.bytes_read) - double(first.bytes_read));
    return difference <= kSameBytes * double(first.bytes_read) && pass.io_ns >= kSameTime * first.io_ns;
  });
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (reading_of(input) == Reading::kNoMatter) return std::nullopt;
  const InputFacts& facts = *input.facts;
  if (!reads_the_same_again(facts.passes)) return std::nullopt;
  const double bytes = double(facts.passes.front().bytes_read);
  // Each rank of the host reads its own share.
  if (bytes * input.ranks_on_host > kRoom * double(facts.memory_available_bytes)) return std::nullopt;
  const double ceiling = ceiling_without_reading(input);
  if (ceiling < kLeastSpeedup) return std::nullopt;

  Finding finding = make_finding(kInputCacheable, input, 1 - 1 / ceiling);
  finding.title = "Each epoch reads the same bytes again, and they would fit in memory";
  finding.evidence = reading_evidence(input);
  finding.evidence.push_back({"read in each pass", bytes / 1e6, "MB"});
  finding.evidence.push_back({"memory available", double(facts.memory_available_bytes) / 1e6, "MB"});
  finding.evidence.push_back({"passes", double(facts.passes.size()), "passes"});
  finding.fix.setting = "cache";
  finding.fix.value = size_words(bytes);
  finding.fix.summary = fmt::format(
      "keep the {} of a pass in memory ({} are free): load them once before the workers start, or copy them "
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
    "Whole passes over the loader that read the same number of bytes, the later ones no quicker than the "
    "first, while memory for all of them is free. Where the later passes are quick, the page cache holds "
    "them "
    "already.",
    "Load the data once and keep it: in the dataset before the workers start (they share it), in /dev/shm, "
    "or "
    "memory-mapped.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
