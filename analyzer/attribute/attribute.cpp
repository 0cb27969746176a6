// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/attribution.h"
#include "analyzer/attribute/rank_rows.h"

namespace gpuwatch::attribute {

std::vector<RankAttribution> attribute(const model::Run& run) {
  std::vector<RankAttribution> result;
  for (uint32_t i = 0; i < run.processes.size(); ++i) {
    if (!run.processes[i].is_rank()) continue;
    for (RankAttribution& row : attribute_process(run, i, model::find_steps(run, run.processes[i]))) {
      result.push_back(std::move(row));
    }
  }
  return result;
}

}  // namespace gpuwatch::attribute
