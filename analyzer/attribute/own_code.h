// SPDX-License-Identifier: Apache-2.0
// What a launching thread's own code between two hooked calls is: the framework on its way to the next
// launch, or the script's own work. Decided for a place in the program (the calls before and after, with
// their callers and kernels), not for one occurrence: a dispatcher that loses its CPU for 12 ms has not
// become the script's work. What is known to be waiting for a CPU does not count. Times in ns.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "analyzer/attribute/attribution.h"
#include "analyzer/attribute/process_view.h"
#include "analyzer/attribute/step_cost.h"

namespace gpuwatch::attribute {

// PyTorch takes 5 to 50 us from operation to operation, an optimizer's Python loop some 100 us.
inline constexpr model::Ns kDispatchNs = 1'000'000;

class OwnCode {
 public:
  // `steps`: how many steps the process took. `costs`: of this thread, null where they are not known;
  // outlives this. Linear in the thread's calls.
  OwnCode(const ProcessView& view, uint32_t thread, size_t steps, const StepCosts* costs);

  Category category(size_t stretch_index) const;

  // Within a stretch that is the script's, the first span from `time` on that is an operator of the framework
  // (of imported traces, which have them); empty at `end` without one.
  model::TimeSpan next_operator(model::Ns time, model::Ns end) const;

 private:
  struct Place {
    size_t times = 0;
    std::vector<size_t> long_visits;  // which of its times
    bool is_work = false;
  };
  void find_operators();
  void find_long();
  void count_visits();
  bool is_long(const Stretch& stretch) const;
  bool is_work(const Place& place) const;

  const ProcessView& view_;
  const Activity& activity_;
  uint32_t thread_;
  size_t steps_;
  const StepCosts* costs_;
  std::vector<model::TimeSpan> operators_;      // the outermost, in order of time
  std::vector<bool> is_long_;                   // by stretch
  std::unordered_map<uint64_t, Place> places_;  // those that took long at least once
};

}  // namespace gpuwatch::attribute
