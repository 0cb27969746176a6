// SPDX-License-Identifier: Apache-2.0
// Which of the causes behind slow reading it is, each recognised in one place so that no two rules claim the
// same wait, and what a loader without that wait would gain.
#pragma once

#include <string>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

enum class Reading {
  kNoMatter,    // training does not wait for it, or it is quick
  kRemote,      // over a network: a remote file system, or sockets
  kSmallFiles,  // opening and finding files, not moving their bytes
  kSlow         // anything else: local storage
};

inline constexpr double kLeastReadWait = 0.05;
inline constexpr double kLeastReadShare = 0.20;
inline constexpr double kCacheBytesS = 1e9;
inline constexpr double kRemoteShare = 0.50;
inline constexpr double kSmallFileBytes = 256 * 1024;
inline constexpr double kLeastFiles = 0.5;
inline constexpr double kFasterStorage = 10;  // what a prediction about storage assumes

inline constexpr Threshold kReadWait{"share of the step spent waiting for data", kLeastReadWait,
                                     "of the step", "below it a job is not input bound"};
inline constexpr Threshold kReadShare{"time in read, open and stat calls", kLeastReadShare, "of the fetch",
                                      "less, and transforms are by far the larger part"};
inline constexpr Threshold kCacheSpeed{"bytes a second while reading", kCacheBytesS, "bytes/s",
                                       "faster than that comes from the page cache: a faster disk gains "
                                       "nothing"};

Reading reading_of(const RuleInput& input);

// Speed-up if reading took no time at all: what no storage can exceed.
double ceiling_without_reading(const RuleInput& input);

// "read in batches: 12.5 ms, 3.2 MB, ..." - evidence that all of these rules give alike.
std::vector<Evidence> reading_evidence(const RuleInput& input);

// Where files are read: the dataset's code where that is known, else the loader's line.
std::string reading_location(const RuleInput& input);

// "38 GiB", "512 MiB"
std::string size_words(double bytes);

}  // namespace gpuwatch::advise
