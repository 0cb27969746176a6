// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/passes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "analyzer/model/backward_thread.h"

namespace gpuwatch::advise {
namespace {

constexpr size_t kLeastPasses = 3;      // of two, one may be another network's
constexpr size_t kLeastLaunches = 4;    // of a backward pass
constexpr double kAlike = 0.2;          // of the launches: data decides about some
constexpr double kFirstMayLack = 0.5;   // the first one has no gradients to add to
constexpr double kLeastForward = 0.25;  // of the backward pass: less is another loss of the same forward pass
constexpr double kLeastStepsAlike = 0.8;  // of the steps

struct Pass {
  size_t forward = 0, backward = 0;  // launches
};

bool is_alike(size_t count, size_t other) {
  return double(std::max(count, other)) * (1 - kAlike) <= double(std::min(count, other));
}

bool are_alike(const std::vector<Pass>& passes) {
  if (passes.size() < kLeastPasses) return false;
  const Pass& model = passes[1];
  const double first = double(passes[0].backward), backward = double(model.backward);
  if (first < kFirstMayLack * backward || first * (1 - kAlike) > backward) return false;
  return std::all_of(passes.begin() + 1, passes.end(), [&](const Pass& pass) {
    return is_alike(pass.forward, model.forward) && is_alike(pass.backward, model.backward) &&
           double(pass.forward) >= kLeastForward * double(pass.backward);
  });
}

// The passes of each step, up to the optimizer's first launch and after its last one.
class PassesOfSteps {
 public:
  explicit PassesOfSteps(const RuleInput& input) {
    for (const predict::HostEvent& event : input.streams->events) {
      if (event.op_class != trace::OpClass::Launch || event.op_count == 0) continue;
      if (std::exchange(step_, event.step) != event.step) end_step();
      if (input.streams->ops[event.first_op].is_of_optimizer)
        end_update();
      else if (event.thread == input.process.training_thread)
        add_forward();
      else if (model::runs_backward(input.process, event.thread))
        ++now_.backward;
    }
    end_step();
  }

  double a_step() const {
    const double alike = double(steps_alike_);
    return alike > 0 && alike >= kLeastStepsAlike * double(steps_) ? double(passes_) / alike : 1;
  }

 private:
  void add_forward() {
    if (now_.backward > 0) end_pass();
    ++now_.forward;
  }
  void end_pass() {
    if (now_.backward >= kLeastLaunches) of_update_.push_back(now_);
    now_ = {};
  }
  // Of several updates in a step, the one with most passes counts.
  void end_update() {
    end_pass();
    if (of_update_.size() > of_step_.size()) of_step_ = of_update_;
    of_update_.clear();
  }
  void end_step() {
    end_update();
    if (of_step_.empty()) return;
    ++steps_;
    if (are_alike(of_step_)) {
      ++steps_alike_;
      passes_ += of_step_.size();
    }
    of_step_.clear();
  }

  uint32_t step_ = model::kNone;
  Pass now_;
  std::vector<Pass> of_update_, of_step_;
  size_t steps_ = 0, steps_alike_ = 0, passes_ = 0;
};

}  // namespace

double passes_a_step(const RuleInput& input) {
  return PassesOfSteps(input).a_step();
}

const LaunchSource* source_of_passes(const std::vector<LaunchSource>& sources, double launches_a_step) {
  constexpr double kLeastShare = 0.2;  // of the launches; to scale a loss takes a few
  const LaunchSource* most = nullptr;
  for (const LaunchSource& source : sources)
    if (!source.is_optimizer && (!most || source.a_step > most->a_step)) most = &source;
  return most && most->a_step >= kLeastShare * launches_a_step ? most : nullptr;
}

double speedup_in_one_pass(const RuleInput& input, double passes) {
  predict::StreamReplayInput at_best = *input.assumed_streams;
  predict::scale_batch_on_device(at_best, passes, input.run, *input.device, predict::resident_blocks);
  const double step_ms = predict::replay(at_best).step_ms;
  return step_ms > 0 ? passes * input.assumed_step_ms / step_ms : 1;
}

}  // namespace gpuwatch::advise
