// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/kernel_tokens.h"

#include <string_view>
#include <unordered_map>

namespace gpuwatch::model {

std::vector<uint32_t> kernel_tokens(const Run& run, KernelIdentity identity) {
  std::vector<uint32_t> tokens;
  std::unordered_map<std::string_view, uint32_t> first;
  for (uint32_t i = 0; i < run.kernels.size(); ++i)
    tokens.push_back(
        identity == KernelIdentity::kName ? first.try_emplace(run.kernels[i].name, i).first->second : i);
  return tokens;
}

}  // namespace gpuwatch::model
