// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/launch_sources.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "analyzer/model/script_work.h"
#include "analyzer/model/training_stacks.h"

namespace gpuwatch::advise {
namespace {

using model::Ns;
using model::StackFrame;
using predict::HostEvent;

constexpr double kLeastLaunches = 4;     // a step; a loss and a metric have as many
constexpr size_t kBackwardLaunches = 2;  // of a model's operation: a gradient for each of two operands

uint64_t key(const HostEvent& event) {
  return uint64_t{event.thread} << 32 | event.call;
}

// A place in a step's order: launches before the optimizer's first one, its own, and those after it, each
// counted from the first.
struct Place {
  int part = 0;
  size_t number = 0;
};

class Finder {
 public:
  explicit Finder(const RuleInput& input) : input_(input) {
    number_launches();
    look_at_samples();
  }

  std::vector<LaunchSource> sources() {
    LaunchSource optimizer{.is_optimizer = true};
    std::map<size_t, LaunchSource> own;  // by function
    for (const Launch& launch : launches_) {
      const size_t function = function_at(launch.place);
      if (function != kModel)
        (launch.place.part == kOptimizer ? optimizer : own[function]).members.push_back(launch.key);
    }
    std::vector<LaunchSource> result;
    put_names(optimizer, most_seen(kOptimizer));
    add(std::move(optimizer), result);
    for (auto& [function, source] : own) {
      put_names(source, function);
      source.is_of_loss = follows_model(function);
      std::ranges::sort(source.members);
      if (source.is_of_loss) find_backward(source);
      add(std::move(source), result);
    }
    return result;
  }

 private:
  static constexpr int kBefore = 0, kOptimizer = 1, kAfter = 2, kPartCount = 3;
  static constexpr size_t kModel = 0;  // or a package: no function of the script

  struct Launch {
    uint64_t key;
    Ns begin, end;  // the host's time for it
    Place place;
  };
  struct Function {
    StackFrame function;
    std::map<uint32_t, size_t> texts;  // that it was seen with, and how often
  };
  using Seen = std::pair<size_t, size_t>;  // number and function

  void number_launches() {
    uint32_t step = model::kNone;
    int part = kBefore;
    size_t number = 0;
    for (const HostEvent& event : input_.streams->events) {
      const bool is_launch = event.op_class == trace::OpClass::Launch && event.op_count > 0;
      if (!is_launch || event.thread != input_.process.training_thread) continue;
      const bool is_optimizers = input_.streams->ops[event.first_op].is_of_optimizer;
      if (std::exchange(step, event.step) != event.step)
        std::tie(part, number) = std::pair(kBefore, size_t{0});
      const int now = is_optimizers ? kOptimizer : part == kBefore ? kBefore : kAfter;
      if (std::exchange(part, now) != now) number = 0;
      const model::HostCall& call = input_.process.threads[event.thread].calls[event.call];
      launches_.push_back({key(event), call.begin - Ns(event.gap_ns), call.end, {part, number++}});
    }
  }

  void look_at_samples() {
    if (launches_.empty()) return;
    std::map<std::pair<uint32_t, int>, size_t> known;  // by text and part
    for (const model::WorkerStack* sample :
         model::training_samples(input_.process, {{launches_.front().begin, launches_.back().end}})) {
      // Samples of a wait, or of work between two other calls, are of no launch.
      const auto launch = std::ranges::lower_bound(launches_, sample->time, {}, &Launch::end);
      if (launch == launches_.end() || sample->time < launch->begin) continue;
      const auto text = input_.run.texts.find(sample->text);
      if (text == input_.run.texts.end()) continue;
      const auto [function, is_new] = known.try_emplace({sample->text, launch->place.part}, kModel);
      if (is_new) function->second = function_of(model::frames_of(text->second), launch->place.part);
      ++functions_[function->second].texts[sample->text];
      seen_[launch->place.part].push_back({launch->place.number, function->second});
    }
    for (auto& seen : seen_) std::ranges::sort(seen);
  }

  // In an optimizer's step each sample has a function; elsewhere the script's own lines have.
  size_t function_of(const std::vector<StackFrame>& frames, int part) {
    const std::optional<StackFrame> function =
        part == kOptimizer ? optimizers_function(frames) : loops_function(frames);
    if (!function) return kModel;
    for (size_t i = 1; i < functions_.size(); ++i)
      if (functions_[i].function.file == function->file &&
          functions_[i].function.function == function->function)
        return i;
    functions_.push_back({*function, {}});
    return functions_.size() - 1;
  }

  // The script's own line, also where Module.parameters() looks for the loop's next one.
  static std::optional<StackFrame> loops_function(const std::vector<StackFrame>& frames) {
    const auto line = std::ranges::find_if(frames, model::is_users);
    const bool is_next = std::any_of(frames.begin(), line, [](const StackFrame& frame) {
      return frame.file.ends_with("/torch/nn/modules/module.py") &&
             (frame.function.find("parameters") != std::string::npos ||
              frame.function.find("named_members") != std::string::npos);
    });
    return model::own_line(is_next ? std::vector(line, frames.end()) : frames);
  }

  // Of torch.optim, or of an optimizer of the script's or a package's. Not what a closure does that
  // optimizer.step() calls: Lightning's is the whole step.
  static std::optional<StackFrame> optimizers_function(const std::vector<StackFrame>& frames) {
    const auto is_wrapper = [](const StackFrame& frame) {
      return frame.file.ends_with("/torch/optim/optimizer.py") ||
             frame.file.ends_with("/torch/utils/_contextlib.py");
    };
    const auto is_torchs = [](const StackFrame& frame) {
      return frame.file.find("/torch/optim/") != std::string::npos;
    };
    const auto wrapper = std::ranges::find_if(
        frames, [](const StackFrame& frame) { return frame.file.ends_with("/torch/optim/optimizer.py"); });
    std::vector<StackFrame> inside;
    std::copy_if(frames.begin(), wrapper, std::back_inserter(inside), std::not_fn(is_wrapper));
    if (wrapper == frames.end() || inside.empty()) return std::nullopt;
    if (!is_torchs(inside.back())) {
      const auto own = std::ranges::find_if(inside, model::is_users);
      return own == inside.end() ? inside.back() : *own;
    }
    const bool is_closure = std::ranges::any_of(inside, [](const StackFrame& frame) {
      return model::is_users(frame) || frame.file.find("/torch/nn/modules/") != std::string::npos;
    });
    return is_closure ? std::nullopt : std::optional(*std::ranges::find_if(inside, is_torchs));
  }

  // The function seen nearest to this place; between two of another one, that one.
  size_t function_at(Place place) const {
    const auto& seen = seen_[place.part];
    if (seen.empty()) return kModel;
    auto nearest = std::ranges::lower_bound(seen, place.number, {}, &Seen::first);
    const bool is_last = nearest == seen.end();
    if (is_last || (nearest != seen.begin() &&
                    place.number - std::prev(nearest)->first <= nearest->first - place.number))
      --nearest;
    if (nearest == seen.begin() || std::next(nearest) == seen.end()) return nearest->second;
    const size_t before = std::prev(nearest)->second;
    return before == std::next(nearest)->second ? before : nearest->second;
  }

  size_t most_seen(int part) const {
    std::map<size_t, size_t> counts;
    for (const auto& [number, function] : seen_[part])
      if (function != kModel) ++counts[function];
    const auto most = std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
    return most == counts.end() ? kModel : most->first;
  }

  void put_names(LaunchSource& source, size_t function) const {
    source.function = functions_[function].function;
    model::FunctionTallies lines;
    for (const auto& [text, count] : functions_[function].texts)
      if (const auto line = model::users_line(input_.run, text)) lines.add(*line, double(count));
    const auto by_share = lines.by_share();
    if (!by_share.empty()) source.line = by_share.front().frame;
  }

  double mean_place(size_t function) const {
    double sum = 0, count = 0;
    for (const Launch& launch : launches_) {
      if (launch.place.part != kBefore || function_at(launch.place) != function) continue;
      sum += double(launch.place.number);
      ++count;
    }
    return count > 0 ? sum / count : -1;
  }

  bool follows_model(size_t function) const {
    const double own = mean_place(function);
    return own >= 0 && own > mean_place(kModel);
  }

  // Another thread launches the backward pass, the loss's part of it first.
  void find_backward(LaunchSource& source) const {
    const predict::EventFilter is_own = is_one_of(source.members);
    struct Step {
      size_t own = 0, model = 0;
      std::vector<uint64_t> backward;
    } step;
    uint32_t number = model::kNone;
    const auto end_step = [&] {
      const auto take = [&](size_t count, std::vector<uint64_t>& to) {
        const auto begin = step.backward.begin();
        to.insert(to.end(), begin, begin + ptrdiff_t(std::min(count, step.backward.size())));
      };
      const size_t of_own = kBackwardLaunches * step.own, of_model = kBackwardLaunches * step.model;
      take(of_own, source.backward);
      take(std::max(of_own, step.backward.size() - std::min(of_model, step.backward.size())),
           source.backward_at_most);
      step = {};
    };
    for (const HostEvent& event : input_.streams->events) {
      if (std::exchange(number, event.step) != event.step) end_step();
      if (event.op_class != trace::OpClass::Launch || event.op_count == 0) continue;
      if (event.thread != input_.process.training_thread) {
        if (step.own > 0) step.backward.push_back(key(event));
      } else if (!input_.streams->ops[event.first_op].is_of_optimizer) {
        ++(is_own(event) ? step.own : step.model);
      }
    }
    end_step();
    std::ranges::sort(source.backward);
    std::ranges::sort(source.backward_at_most);
  }

  void add(LaunchSource source, std::vector<LaunchSource>& result) const {
    source.a_step = double(source.members.size()) / double(std::max<size_t>(1, input_.streams->steps));
    if (source.a_step <= kLeastLaunches || source.function.function.starts_with("_fused")) return;
    std::ranges::sort(source.members);
    result.push_back(std::move(source));
  }

  const RuleInput& input_;
  std::vector<Launch> launches_;
  std::vector<Function> functions_{1};  // the first one stands for kModel
  std::vector<Seen> seen_[kPartCount];  // sorted
};

}  // namespace

predict::EventFilter is_one_of(const std::vector<uint64_t>& members) {
  return [&members](const HostEvent& event) { return std::ranges::binary_search(members, key(event)); };
}

std::vector<LaunchSource> launch_sources(const RuleInput& input) {
  return Finder(input).sources();
}

}  // namespace gpuwatch::advise
