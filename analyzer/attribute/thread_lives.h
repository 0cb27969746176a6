// SPDX-License-Identifier: Apache-2.0
// Which threads were between their first and their last call at a moment. A job that starts a thread for each
// batch has thousands of them and two that live at once: who made the data of each wait is asked of those
// two.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/model/run.h"

namespace gpuwatch::attribute {

struct ThreadLife {
  model::Ns begin, end;
  uint32_t thread;
};

class ThreadLives {
 public:
  explicit ThreadLives(std::vector<ThreadLife> lives);

  // Those with begin <= time < end, in order of their numbers.
  std::vector<uint32_t> at(model::Ns time) const;
  // Of those with end <= time the one that ended last, of equals the first; kNone if there is none.
  uint32_t ended_last(model::Ns time) const;

 private:
  void find(size_t node, size_t first, size_t last, model::Ns time, std::vector<uint32_t>& found) const;

  std::vector<ThreadLife> by_begin_, by_end_;
  // The latest end of a half of by_begin_, of its halves, and so on: node i has the children 2i + 1 and 2i
  // + 2.
  std::vector<model::Ns> latest_;
};

}  // namespace gpuwatch::attribute
