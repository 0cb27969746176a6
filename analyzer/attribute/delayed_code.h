// SPDX-License-Identifier: Apache-2.0
// Where in a thread's own code its run delay lies, of which its counter tells only the sum of an interval: at
// the visits that took longer than the place usually takes, as far as they did. A core is lost for
// milliseconds here and there, not a little everywhere. What that does not account for is spread evenly.
// Times in ns.
#pragma once

#include <unordered_map>
#include <vector>

#include "analyzer/attribute/place.h"

namespace gpuwatch::attribute {

class DelayedCode {
 public:
  // Linear in the thread's calls.
  DelayedCode(const ProcessView& view, uint32_t thread);

  // The thread's own code in `interval` was delayed by `delay_ns` in all. Intervals in order of time,
  // disjoint.
  void add(model::TimeSpan interval, model::Ns delay_ns);

  // Of that, what lies in `time`. Over disjoint spans of time it adds up exactly.
  model::Ns within(model::TimeSpan time) const { return until(time.end) - until(time.begin); }

 private:
  struct Piece {
    model::TimeSpan time;
    model::Ns excess_ns;  // beyond what the place usually takes
  };
  struct Knot {
    model::Ns time;
    model::Ns delay_ns;  // from the first interval on
  };
  model::Ns excess_of(size_t stretch_index) const;
  std::vector<Piece> pieces_in(model::TimeSpan interval) const;
  model::Ns until(model::Ns time) const;

  const ProcessView& view_;
  const Activity* activity_;
  uint32_t thread_;
  std::unordered_map<uint64_t, model::Ns> usual_;  // by place
  std::vector<Knot> knots_;
};

}  // namespace gpuwatch::attribute
