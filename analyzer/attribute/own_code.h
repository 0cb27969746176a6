// SPDX-License-Identifier: Apache-2.0
// What a launching thread's own code between two hooked calls is: the framework on its way to the next
// launch, or the script's own work. Decided for a place in the program (the calls before and after, with
// their callers), not for one occurrence: a dispatcher that loses its CPU for 12 ms has not become the
// script's work. Times in ns.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "analyzer/attribute/attribution.h"
#include "analyzer/attribute/process_view.h"

namespace gpuwatch::attribute {

// PyTorch takes 5 to 50 us from operation to operation, an optimizer's Python loop some 100 us.
inline constexpr model::Ns kDispatchNs = 1'000'000;

class OwnCode {
 public:
  // `steps`: how many steps the process took. Linear in the thread's calls.
  OwnCode(const ProcessView& view, uint32_t thread, size_t steps);

  Category category(size_t stretch_index) const;

 private:
  struct Place {
    size_t times = 0;
    size_t long_times = 0;
  };
  uint64_t place_of(size_t stretch_index) const;
  uint64_t call_key(uint32_t call) const;

  const ProcessView& view_;
  const Activity& activity_;
  uint32_t thread_;
  size_t steps_;
  std::unordered_map<uint64_t, Place> places_;  // those that took long at least once
};

}  // namespace gpuwatch::attribute
