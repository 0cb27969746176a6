// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/short_lines.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "analyzer/model/script_work.h"
#include "analyzer/model/training_stacks.h"

namespace gpuwatch::model {
namespace {

constexpr double kShort = 0.9;  // of the function's samples: a few operations may be long

struct Place {
  bool is_backward = false, is_forward = false;
  std::optional<StackFrame> own;
};

// Not a module that an optimizer's step calls: Lightning calls training_step() from within it.
bool is_in_optimizer(const std::vector<StackFrame>& frames) {
  for (const StackFrame& frame : frames) {
    if (frame.file.ends_with("/torch/nn/modules/module.py")) return false;
    if (frame.file.find("/torch/optim/") != std::string::npos) return true;
  }
  return false;
}

Place place_of(const std::vector<StackFrame>& frames) {
  if (is_backward(frames)) return {.is_backward = true};
  if (is_in_optimizer(frames) || !runs_in_model(frames) || hook_function(frames)) return {};
  return {.is_forward = true, .own = line_at_work(frames)};
}

struct Tally {
  double all = 0, interprets = 0;
  FunctionTallies lines;
};

}  // namespace

std::optional<ShortLines> short_lines(const Run& run, const Process& process,
                                      const std::vector<TimeSpan>& intervals) {
  ShortLines result;
  double all = 0, forward = 0, backward = 0;
  std::map<std::pair<std::string, std::string>, Tally> functions;
  std::unordered_map<uint32_t, Place> places;
  for (const WorkerStack* sample : training_samples(process, intervals)) {
    const auto text = run.texts.find(sample->text);
    if (text == run.texts.end()) continue;
    const auto [place, is_new] = places.try_emplace(sample->text);
    if (is_new) place->second = place_of(frames_of(text->second));
    const double weight = double(std::max<Ns>(0, sample->weight));
    ++result.samples;
    all += weight;
    forward += place->second.is_forward ? weight : 0;
    backward += place->second.is_backward ? weight : 0;
    if (!place->second.own) continue;
    Tally& tally = functions[{place->second.own->file, place->second.own->function}];
    tally.all += weight;
    tally.interprets += sample->interprets ? weight : 0;
    tally.lines.add(*place->second.own, weight);
  }
  const auto most =
      std::ranges::max_element(functions, {}, [](const auto& entry) { return entry.second.interprets; });
  if (result.samples < kLeastStackSamples || most == functions.end()) return std::nullopt;
  const Tally& tally = most->second;
  if (tally.interprets <= 0 || tally.interprets < kShort * tally.all) return std::nullopt;
  result.share = sampled_share(tally.interprets / all, double(result.samples));
  result.of_forward = tally.interprets / forward;
  result.backward = backward / all;
  result.line = tally.lines.by_share().front().frame;
  return result;
}

}  // namespace gpuwatch::model
