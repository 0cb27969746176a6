// SPDX-License-Identifier: Apache-2.0
// `gpuwatch predict`: what a step would take with another loader setting, by replaying the recorded one.
// Throws io::UserError for what the user can mend.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace gpuwatch::cli {

struct PredictOptions {
  std::vector<std::string> traces;
  bool json = false;
  std::optional<int> rank;
  std::optional<int> num_workers;  // as recorded where not given
  std::optional<int> prefetch_factor;
  std::optional<bool> persistent_workers, in_order, pin_memory;
  std::optional<double> io_factor, cpu_factor;  // of blocked input and computing in a fetch
  std::optional<double> cores;
};

std::string predict(const PredictOptions& options);

}  // namespace gpuwatch::cli
