// SPDX-License-Identifier: Apache-2.0
// Predictions that were tried on this machine, and what came of them: one JSON line each in
// $XDG_DATA_HOME/gpuwatch/predictions.jsonl (~/.local/share by default), readable by its owner only, sent
// nowhere, without paths and names of anybody or anything but a setting. GPUWATCH_KEEP=0: none is kept or
// read.
//
// The file is hostile input. Nothing here throws but std::bad_alloc: a trial does not fail because of its
// notes. Several threads and processes may keep predictions at the same time; the other functions are pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/predict/prediction.h"

namespace gpuwatch::trial {

struct KeptPrediction {
  std::string day;             // "2026-01-31", UTC; keep() writes today where it is empty
  std::string finding;         // its id: "dataloader-workers"
  std::string setting, value;  // "num_workers", "4"; "" where it is not made of letters, digits and ". _ -"
  bool is_cpu_job = false;
  double before_ms = 0;            // a step, as measured
  predict::Estimate predicted_ms;  // a step, with the setting
  double achieved_ms = 0;          // measured with the setting
  bool was_disturbed = false;      // other programs took part of the machine: says nothing about the model

  bool came_true() const { return predicted_ms.low <= achieved_ms && achieved_ms <= predicted_ms.high; }
};

// False where it was not written: opted out, not a valid prediction, no home, or a file or folder that is a
// link, not the user's or writable by others.
bool keep(const KeptPrediction& prediction);

// Oldest first, from the last 256 KiB of the file; lines that are not valid are skipped.
std::vector<KeptPrediction> kept_predictions();

// Those that the same model predicted: of the loader's replay, or else of this setting; on the CPU or a
// device.
std::vector<KeptPrediction> of_kind(std::span<const KeptPrediction> kept, std::string_view setting,
                                    bool is_cpu_job);

// "14 of 15 earlier predictions on this machine came true"; "" below three. Disturbed runs do not count.
std::string came_true_words(std::span<const KeptPrediction> kept);

// achieved / expected step time, median of the last 20 undisturbed ones; empty below five, or within 3% of 1.
std::optional<double> observed_bias(std::span<const KeptPrediction> kept);

// The interval extended to what the bias of earlier predictions of the same kind (of_kind) would make of the
// expected value, with a sentence in `assumptions`. Never narrower, and the expected value stays.
predict::Prediction widened(predict::Prediction prediction, std::span<const KeptPrediction> kept);

}  // namespace gpuwatch::trial
