// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/sampled_evaluation.h"

#include <algorithm>
#include <unordered_map>

#include "analyzer/model/training_stacks.h"

namespace gpuwatch::model {
namespace {

// Keras' trainers: "/keras/src/backend/jax/trainer.py:412 JAXTrainer.predict".
bool evaluates(const StackFrame& frame) {
  const bool is_trainer =
      frame.file.find("/keras/src/backend/") != std::string::npos && frame.file.ends_with("/trainer.py");
  const std::string name = frame.function.substr(frame.function.rfind('.') + 1);
  return is_trainer &&
         (name == "evaluate" || name == "predict" || name == "test_on_batch" || name == "predict_on_batch");
}

// The user's line nearest to the outermost evaluation; without a file where this stack shows none.
std::optional<StackFrame> evaluation_line(const std::vector<StackFrame>& frames) {
  const auto outermost = std::find_if(frames.rbegin(), frames.rend(), evaluates);
  if (outermost == frames.rend()) return std::nullopt;
  const auto caller = std::find_if(outermost.base(), frames.end(), is_users);
  return caller == frames.end() ? StackFrame() : *caller;
}

}  // namespace

std::optional<SampledEvaluation> sampled_evaluation(const Run& run, const Process& process,
                                                    const std::vector<TimeSpan>& intervals) {
  std::unordered_map<uint32_t, std::optional<StackFrame>> known;
  FunctionTallies lines;
  double all = 0, evaluating = 0;
  const std::vector<const WorkerStack*> samples = training_samples(process, intervals);
  for (const WorkerStack* sample : samples) {
    const auto text = run.texts.find(sample->text);
    if (text == run.texts.end()) continue;
    const auto [line, is_new] = known.try_emplace(sample->text);
    if (is_new) line->second = evaluation_line(frames_of(text->second));
    const double weight = double(std::max<Ns>(0, sample->weight));
    all += weight;
    if (!line->second) continue;
    evaluating += weight;
    if (!line->second->file.empty()) lines.add(*line->second, weight);
  }
  if (samples.size() < kLeastStackSamples || evaluating <= 0) return std::nullopt;
  SampledEvaluation seen{.share = sampled_share(evaluating / all, double(samples.size())), .line = {}};
  if (const auto by_share = lines.by_share(); !by_share.empty()) seen.line = by_share.front().frame;
  return seen;
}

}  // namespace gpuwatch::model
