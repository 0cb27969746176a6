// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/place_words.h"

#include <fmt/format.h>

#include "analyzer/io/printable.h"

namespace gpuwatch::advise {

std::string short_location(const std::string& location) {
  const std::string safe = io::printable(location);
  // ipykernel names a cell's file by a hash: "/tmp/ipykernel_4711/2718281828.py:5".
  if (safe.find("/ipykernel_") != std::string::npos && safe.find(':') != std::string::npos)
    return "notebook cell, line " + safe.substr(safe.find_last_of(':') + 1);
  return safe.substr(safe.find_last_of('/') + 1);
}

std::string place_words(const model::StackFrame& frame) {
  return fmt::format("{} ({})", io::printable(frame.function), short_location(frame.location()));
}

}  // namespace gpuwatch::advise
