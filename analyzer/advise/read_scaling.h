// SPDX-License-Identifier: Apache-2.0
// Do more workers read faster, or do they share what the storage gives? Reads are waiting, which other
// workers can do beside each other: as fast as one where each read has its own latency, no faster than one
// where all share a bandwidth, a server or a lock. A recording tells which only where reads met more and
// fewer others; where it does not, both stay possible. Sleeping is not shared. Pure functions.
#pragma once

#include <optional>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

struct ReadScaling {
  double readers = 1;  // at once, as a read met them
  double most_readers = 1;
  // Time of a read goes with (readers at once) ^ growth: 0 all independent, 1 all share one bandwidth.
  double growth_low = 0, growth_high = 1;
  bool is_measured = false;
};

// Step times with another number of readers: as fast as the recording allows, and as slow.
struct ReadOutlook {
  double independent_ms = 0;  // each read takes as long as a recorded one
  predict::Estimate step_ms;
  bool is_measured = false;

  // The recording leaves open whether the change gains: no prediction is made of it.
  bool is_open() const;
};

class Reads {
 public:
  Reads(const RuleInput& input, const predict::LoaderReplayInput& loader);

  // nullopt: `setting` changes nothing about who reads, or batches hardly read.
  std::optional<ReadOutlook> outlook(const predict::LoaderSetting& setting) const;

  // The step with what the recording tells of reads; those that it does not tell of are independent.
  double step_ms(const predict::LoaderSetting& setting) const;

 private:
  bool changes_readers(const predict::LoaderSetting& setting) const;
  double slower(double readers, double growth) const;
  double io_factor(const predict::LoaderSetting& setting, double growth) const;
  double step_at_growth(predict::LoaderSetting setting, double growth) const;

  const RuleInput& input_;
  const predict::LoaderReplayInput& loader_;
  predict::LoaderReplayInput shared_;  // with all waits that may be shared as reads
  ReadScaling scaling_;
  double io_ns_ = 0, rest_ns_ = 0;  // of a batch, mean
};

}  // namespace gpuwatch::advise
