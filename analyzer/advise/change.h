// SPDX-License-Identifier: Apache-2.0
// What a fix changes, as data. Replays apply it to their input; the report prints `fix.setting` and
// `fix.value` from it. Plain values, safe to share between threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "analyzer/predict/loader_replay.h"

namespace gpuwatch::advise {

// A parameter of torch.utils.data.DataLoader. Frameworks that build the loader have their own words for it.
enum class LoaderOption : uint8_t {
  kNumWorkers,
  kPrefetchFactor,
  kPersistentWorkers,
  kInOrder,
  kPinMemory,  // its gain is predicted on the device's timeline, where the copy is
};

struct LoaderChange {
  LoaderOption option;
  int value = 0;  // switches: 0 or 1
};

// The dataset is read from storage `predict::LoaderSetting::io_factor` times as fast.
struct StorageChange {
  std::string value;  // "local", "120 MB/s"
};

// The what-ifs of predict/stream_replay.h that rules use.
enum class StreamEdit : uint8_t {
  kDropSynchronizations,
  kPinCopies,
  kMoveToOwnStream,
  kDropCalls,
  kCaptureLaunches,
  kMergeOwnLaunches,  // of a loop in the script: over tensors, or over samples
  kScaleBatch,
  kFasterKernels,
  kShortenHostWork,
};

struct StreamChange {
  StreamEdit edit;
  std::string setting;  // "batch_size"
  std::string value;    // "64"
};

// malloc keeps freed memory, so that making a batch takes `cpu_factor` of its CPU time.
struct KeptMemoryChange {
  double cpu_factor = 1;
  std::string tunables;  // of glibc: "glibc.malloc.trim_threshold=1073741824:..."
};

// Every worker has a part of the dataset.
struct SplitChange {};

// Of the script, its environment or the machine: named for the user, and no replay applies it.
struct NamedChange {
  std::string setting;  // "OMP_NUM_THREADS"
  std::string value;    // "1"
};

using Change = std::variant<std::monostate, LoaderChange, StorageChange, StreamChange, KeptMemoryChange,
                            SplitChange, NamedChange>;

std::string_view option_name(LoaderOption option);  // "num_workers"

// "num_workers" and "4" or "True"; empty where there is none.
std::string setting_name(const Change& change);
std::string setting_value(const Change& change);

// The change made to the replayed loader; false where it changes nothing there.
bool apply(const Change& change, predict::LoaderSetting& setting);

}  // namespace gpuwatch::advise
