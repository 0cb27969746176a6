// SPDX-License-Identifier: Apache-2.0
#include "analyzer/page/rank_labels.h"

#include <fmt/format.h>

#include <algorithm>

namespace gpuwatch::page {

std::vector<std::string> rank_labels(const report::Report& report) {
  std::vector<std::string> labels;
  for (const attribute::RankAttribution& rank : report.ranks) {
    const model::Process& process = report.run.processes.at(rank.process);
    std::string label = fmt::format("rank {}", std::max(process.rank, 0));
    const bool has_several =
        std::ranges::count(report.ranks, rank.process, &attribute::RankAttribution::process) > 1;
    if (has_several && rank.device != model::kNone)
      label += fmt::format(", GPU {}", process.devices.at(rank.device).ordinal);
    labels.push_back(std::move(label));
  }
  return labels;
}

}  // namespace gpuwatch::page
