// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/helper_threads.h"

#include <algorithm>
#include <string_view>

#include "analyzer/model/script_work.h"
#include "analyzer/model/stacks.h"
#include "analyzer/model/training_stacks.h"
#include "analyzer/predict/hand_over.h"

namespace gpuwatch::predict {
namespace {

// From step to step, as each optimizer step has it for the time since the one before.
double training_thread_ns(const model::Process& process, model::TimeSpan span) {
  if (process.training_thread >= process.threads.size()) return 0;
  const model::Thread& thread = process.threads[process.training_thread];
  double sum = 0;
  for (const model::HostCall& call : thread.calls) {
    if (call.op_class != trace::OpClass::OptimizerStep || call.detail >= thread.cpu_details.size()) continue;
    if (call.end <= span.begin || call.end > span.end) continue;
    sum += double(thread.cpu_details[call.detail].cpu_ns());
  }
  return std::min(sum, double(span.length()));
}

bool is_built_on_tensors(const model::StackFrame& frame) {
  constexpr std::string_view kLibraries[] = {"torch", "torchvision", "torchaudio", "kornia", "monai", "timm"};
  if (frame.is_of_package)
    return std::ranges::find(kLibraries, model::library_of(frame)) != std::end(kLibraries);
  constexpr std::string_view kPackages[] = {"-packages/torch", "-packages/kornia", "-packages/monai",
                                            "-packages/timm"};
  return std::ranges::any_of(
      kPackages, [&](std::string_view path) { return frame.file.find(path) != std::string::npos; });
}

std::vector<model::TimeSpan> fetches_of(const std::vector<const model::LoaderEpoch*>& epochs) {
  std::vector<model::TimeSpan> fetches;
  for (const model::LoaderEpoch* epoch : epochs)
    for (const model::Batch& batch : epoch->batches)
      if (was_fetched(batch)) fetches.push_back(batch.fetch);
  std::ranges::sort(fetches, {}, &model::TimeSpan::begin);
  return fetches;
}

}  // namespace

FetchCode fetch_code(const model::Run& run, const model::Process& process,
                     const std::vector<const model::LoaderEpoch*>& epochs) {
  size_t samples = 0, tensors = 0, users = 0;
  for (const model::WorkerStack* sample : model::training_samples(process, fetches_of(epochs))) {
    const auto text = run.texts.find(sample->text);
    const std::vector<model::StackFrame> frames =
        text == run.texts.end() ? std::vector<model::StackFrame>() : model::frames_of(text->second);
    if (frames.empty()) continue;
    ++samples;
    tensors += is_built_on_tensors(frames.front());
    users += model::is_users(frames.front());
  }
  if (samples < model::kLeastStackSamples) return {};
  return {double(tensors) / double(samples), double(users) / double(samples)};
}

double most_help(const FetchCode& code, uint32_t cpu_count, double fetch_ns, double helpers_ns) {
  // Spinning after training and after the batch is put together does not fill half of so long a fetch.
  constexpr double kLongFetchNs = 10e6, kMoreThanSpinning = 0.5;
  const double all = fetch_ns * (std::max(1.0, double(cpu_count)) - 1);
  const bool may_be_users = fetch_ns > kLongFetchNs && helpers_ns > kMoreThanSpinning * all;
  return all * (code.tensors + (may_be_users ? code.users : 0));
}

std::optional<HelperTime> divide_cpu_time(const model::Process& process, model::TimeSpan span,
                                          double process_ns, double fetch_ns) {
  const double thread_ns = training_thread_ns(process, span);
  if (thread_ns <= 0) return std::nullopt;
  const double helpers_each_takes = std::max(1.0, double(process.cpu_count)) - 1;
  HelperTime result;
  result.training_ns = std::max(0.0, thread_ns - fetch_ns);
  const double helpers_ns = std::max(0.0, process_ns - thread_ns);
  result.helped_training_ns = std::min(helpers_ns, result.training_ns * helpers_each_takes);
  result.helped_fetches_ns = std::min(helpers_ns - result.helped_training_ns, fetch_ns * helpers_each_takes);
  return result;
}

}  // namespace gpuwatch::predict
