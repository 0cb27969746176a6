// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/input_seen.h"

#include <algorithm>

#include "analyzer/advise/loader_words.h"
#include "analyzer/advise/unseen_pipeline.h"
#include "analyzer/model/cpu_time.h"
#include "analyzer/predict/loader_replay.h"

namespace gpuwatch::advise {

bool is_input_seen(const model::Process& process, const attribute::RankAttribution& rank) {
  constexpr double kAtAll = 0.05;  // a job that opens a file now and then has not shown its input
  if (rank.device != model::kNone) return true;
  // A loader that only evaluation reads is not the training's input.
  const bool feeds_steps = std::any_of(rank.steps.begin(), rank.steps.end(),
                                       [](const auto& recorded) { return recorded.step.batches > 0; });
  const bool is_framework_loader =
      std::any_of(process.loaders.begin(), process.loaders.end(),
                  [](const model::Loader& loader) { return loader.framework != "torch"; });
  return feeds_steps || is_framework_loader || rank.share(attribute::Group::Input) >= kAtAll;
}

std::optional<PipelineOnCores> pipeline_on_cores(const model::Run& run,
                                                 const attribute::RankAttribution& rank) {
  const bool has_gpu = rank.device != model::kNone || rank.time(attribute::Category::DeviceUnobserved) > 0;
  const uint32_t index = has_gpu || rank.steps.empty() ? model::kNone : predict::main_loader(run, rank);
  if (index == model::kNone) return std::nullopt;
  const model::Process& process = run.processes.at(rank.process);
  const model::Loader& loader = process.loaders.at(index);
  if (loader.framework == "torch" || loader.num_workers >= 0) return std::nullopt;
  const bool is_dataset =
      loader.framework == "keras" && loader.class_name.find("PyDataset") == std::string::npos;
  PipelineOnCores on_cores{is_dataset ? "tf.data" : framework_name(loader.framework), std::nullopt};
  const model::TimeSpan span{rank.steps.front().step.begin, rank.steps.back().step.end};
  UnseenPipeline pipeline;
  pipeline.wait_share = rank.steady_input_share();
  pipeline.work = model::pipeline_work(process, loader.id, span);
  if (span.length() > 0) pipeline.cores = model::cpu_time(process, span).own_ns / double(span.length());
  if (pipeline.work && pipeline.cores > 0) on_cores.share = pipeline.work_cores() / pipeline.cores;
  return on_cores;
}

}  // namespace gpuwatch::advise
