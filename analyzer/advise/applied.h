// SPDX-License-Identifier: Apache-2.0
// The recorded job after findings were applied to it, for the rules that are asked next: the loader's
// setting, shorter training, the changed timeline, each by what its prediction expects.
#pragma once

#include <memory>
#include <string>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

class Applied {
 public:
  explicit Applied(const RuleInput& recorded) : input_(recorded) {}
  Applied(const Applied&) = delete;  // its input points at what it holds
  Applied& operator=(const Applied&) = delete;

  const RuleInput& input() const { return input_; }
  const std::string& words() const { return words_; }
  size_t count() const { return count_; }

  // Of a finding whose gain is known.
  void apply(const Finding& finding);

 private:
  const predict::LoaderReplayInput* loader() const;
  bool set_loader(const Change& change);
  void shorten_training(double saved_ms);

  RuleInput input_;
  std::string words_;
  size_t count_ = 0;
  predict::StreamReplayInput streams_;
  std::shared_ptr<const predict::StreamReplayInput> timeline_;
  predict::LoaderReplayInput loader_;
};

}  // namespace gpuwatch::advise
