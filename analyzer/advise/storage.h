// SPDX-License-Identifier: Apache-2.0
// Why reading data is slow: remote storage, small files or a slow disk. Decided in one place, so that no two
// rules claim the same data stall. Also the upper bound of what faster reading gains.
#pragma once

#include <string>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

enum class Reading {
  kNotLimiting,  // training does not wait for it, or it comes from the page cache
  kInVain,       // copied from the page cache for the most part of the fetch, and then thrown away
  kRemote,       // a remote file system, or sockets
  kSmallFiles,   // opening and finding files takes the time, not their bytes
  kSlow          // anything else: local storage
};

inline constexpr double kLeastReadWait = 0.05;
inline constexpr double kLeastReadShare = 0.20;
inline constexpr double kCacheBytesS = 1e9;
inline constexpr double kLeastCopyShare = 0.50;
inline constexpr double kReadForNothing = 8;
inline constexpr double kRemoteShare = 0.50;
inline constexpr double kSmallFileBytes = 256 * 1024;
inline constexpr double kLeastFiles = 0.5;
inline constexpr double kFasterStorage = 10;  // predictions assume storage this many times as fast

inline constexpr Threshold kReadWait{"data stall", kLeastReadWait, "of the step",
                                     "the lower of XProf's two bands: below it a job is not input-bound"};
inline constexpr Threshold kReadShare{"time in read, open and stat calls", kLeastReadShare, "of the fetch",
                                      "below it transforms take most of the fetch"};
inline constexpr Threshold kCacheSpeed{
    "read throughput of a worker", kCacheBytesS, "bytes/s",
    "above it data comes from the page cache, and a faster disk gains nothing"};

inline constexpr Threshold kCopyShare{"or, from the page cache, time in those calls", kLeastCopyShare,
                                      "of the fetch", "below it something else takes more"};
inline constexpr Threshold kInVainBytes{"and bytes read", kReadForNothing,
                                        "times those of the batch's tensors",
                                        "a photo of 12 megapixels for a crop of 224 pixels has three times "
                                        "as many, and float64 read for float32 twice"};

Reading reading_of(const RuleInput& input);

// Speedup if reading takes no time, and everything else as long as it was recorded.
double speedup_without_reading(const RuleInput& input);
// Its upper bound, for any way to end the reads.
double ceiling_without_reading(const RuleInput& input);

// What a finding with this bound is about, of the step: where transforms take the larger part of a fetch, no
// more than the reads alone.
double share_of_reading(const RuleInput& input, double ceiling);

// "training waits for data 68% of each step"
std::string data_stall_words(const RuleInput& input);

// Evidence that all rules about reading share: time, bytes and calls a batch.
std::vector<Evidence> reading_evidence(const RuleInput& input);

// Where files are read: the dataset's code if known, else the loader's line.
std::string reading_location(const RuleInput& input);

// "38 GiB", "512 MiB"
std::string size_words(double bytes);

}  // namespace gpuwatch::advise
