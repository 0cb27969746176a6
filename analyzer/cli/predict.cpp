// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "analyzer/advise/diagnose.h"
#include "analyzer/io/user_error.h"
#include "analyzer/model/build.h"
#include "analyzer/predict/loader_replay.h"
#include "analyzer/report/report.h"

namespace gpuwatch::cli {
namespace {

std::string words(const predict::LoaderSetting& setting) {
  if (setting.workers == 0) return "num_workers=0";
  return fmt::format("num_workers={}, prefetch_factor={}", setting.workers, setting.prefetch_factor);
}

std::string sentence(const predict::LoaderSetting& setting, const predict::Prediction& prediction) {
  return fmt::format("{}: {:.1f} -> {:.1f} ms a step ({:.1f}-{:.1f}), {:.2f}x\n", words(setting),
                     prediction.now, prediction.value.expected, prediction.value.low, prediction.value.high,
                     prediction.speedup.expected);
}

}  // namespace

std::string predict(const PredictOptions& options) {
  const model::Run run = model::build_run(options.traces);
  const std::vector<attribute::RankAttribution> ranks = attribute::attribute(run);
  const auto is_wanted = [&](const attribute::RankAttribution& rank) {
    return !options.rank || std::max(run.processes.at(rank.process).rank, 0) == *options.rank;
  };
  const auto rank = std::find_if(ranks.begin(), ranks.end(), is_wanted);
  if (rank == ranks.end()) throw io::UserError("there is no such rank with training steps in this run");
  const auto recording = predict::record_loader(run, *rank);
  if (!recording)
    throw io::UserError("this run has no DataLoader whose fetches were seen, so none can be replayed");

  predict::LoaderSetting setting = recording->setting;
  if (options.num_workers) setting.workers = *options.num_workers;
  if (options.prefetch_factor) setting.prefetch_factor = *options.prefetch_factor;
  const auto prediction = advise::what_if(run, *rank, setting);
  if (!prediction) {
    throw io::UserError(fmt::format(
        "the replay of the unchanged run is off by {:.0f} % over {} steps; too far for a prediction",
        100 * predict::check(*recording).error(), recording->steps));
  }
  if (!options.json) return sentence(setting, *prediction);
  nlohmann::ordered_json result;
  result["schema"] = "gpuwatch.prediction.v1";
  result["setting"] = {{"num_workers", setting.workers}, {"prefetch_factor", setting.prefetch_factor}};
  result["prediction"] = report::prediction_json(*prediction);
  return result.dump(2) + "\n";
}

}  // namespace gpuwatch::cli
