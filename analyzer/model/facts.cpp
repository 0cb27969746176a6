// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/facts.h"

#include <charconv>
#include <cmath>

namespace gpuwatch::model {

double number_fact(const Process& process, const char* key) {
  const auto found = process.facts.find(key);
  if (found == process.facts.end()) return 0;
  double value = 0;
  const std::string& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(value) ? value : 0;
}

}  // namespace gpuwatch::model
