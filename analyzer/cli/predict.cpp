// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "analyzer/advise/diagnose.h"
#include "analyzer/advise/job_gains.h"
#include "analyzer/advise/rule.h"
#include "analyzer/attribute/step_group.h"
#include "analyzer/io/user_error.h"
#include "analyzer/model/build.h"
#include "analyzer/predict/loader_replay.h"
#include "analyzer/report/report.h"

namespace gpuwatch::cli {
namespace {

std::string words(const predict::LoaderSetting& setting) {
  std::string result = fmt::format("num_workers={}", setting.workers);
  if (setting.workers > 0) {
    result += fmt::format(", prefetch_factor={}", setting.prefetch_factor);
    if (setting.persistent) result += ", persistent_workers=True";
    if (!setting.in_order) result += ", in_order=False";
  }
  if (setting.pin) result += ", pin_memory=True";
  if (setting.io_factor != 1) result += fmt::format(", reading times {:g}", setting.io_factor);
  if (setting.cpu_factor != 1) result += fmt::format(", transforms times {:g}", setting.cpu_factor);
  if (setting.cores > 0) result += fmt::format(", {:g} CPU cores", setting.cores);
  return result;
}

predict::LoaderSetting wanted(const PredictOptions& options, predict::LoaderSetting setting) {
  setting.workers = options.num_workers.value_or(setting.workers);
  setting.prefetch_factor = options.prefetch_factor.value_or(setting.prefetch_factor);
  setting.persistent = options.persistent_workers.value_or(setting.persistent);
  setting.in_order = options.in_order.value_or(setting.in_order);
  setting.pin = options.pin_memory.value_or(setting.pin);
  setting.io_factor = options.io_factor.value_or(setting.io_factor);
  setting.cpu_factor = options.cpu_factor.value_or(setting.cpu_factor);
  setting.cores = options.cores.value_or(setting.cores);
  return setting;
}

nlohmann::ordered_json setting_json(const predict::LoaderSetting& setting) {
  nlohmann::ordered_json result = {{"num_workers", setting.workers},
                                   {"prefetch_factor", setting.prefetch_factor},
                                   {"persistent_workers", setting.persistent},
                                   {"in_order", setting.in_order},
                                   {"pin_memory", setting.pin},
                                   {"io_factor", setting.io_factor},
                                   {"cpu_factor", setting.cpu_factor}};
  if (setting.cores > 0) result["cores"] = setting.cores;
  return result;
}

std::string sentence(const predict::LoaderSetting& setting, const predict::Prediction& prediction,
                     const predict::LoaderReplayInput& recording, const std::string& why_not) {
  std::string result = fmt::format("{}: {:.1f} -> {:.1f} ms a step ({:.1f}-{:.1f}), {:.2f}x\n",
                                   words(setting), prediction.now, prediction.value.expected,
                                   prediction.value.low, prediction.value.high, prediction.speedup.expected);
  const bool is_changed = !(setting == recording.setting);
  if (is_changed && prediction.speedup.expected < advise::kLeastSpeedup)
    result +=
        fmt::format("No gain: {}.\n", why_not.empty() ? predict::limit_words(recording, setting) : why_not);
  return result;
}

// The rank that the others wait for; null if there is none.
const attribute::RankAttribution* late_rank(const std::vector<attribute::RankAttribution>& ranks,
                                            const std::vector<attribute::StepGroup>& groups) {
  for (const attribute::StepGroup& group : groups)
    if (group.late) return &ranks[group.late_member()->row];
  return nullptr;
}

// Why a change on this row gains the job nothing; "" where it is not for its peers.
std::string waits_words(const model::Run& run, const attribute::StepGroup& group, size_t row) {
  if (!group.late || group.late_member()->row == row) return "";
  const auto name = [&](const attribute::GroupMember& member) {
    return attribute::rank_name(run.processes.at(member.process));
  };
  return fmt::format("{} waits for {}", name(*attribute::member_of(group, row)), name(*group.late_member()));
}

std::string open_words(const predict::LoaderSetting& setting, const predict::Estimate& range) {
  return fmt::format(
      "{}: {:.1f} ms a step if storage serves {} readers as fast as the recorded ones, up to {:.1f} if they "
      "share "
      "what it gave them; this run does not tell which, so there is no prediction: record one with more "
      "workers",
      words(setting), range.low, setting.workers, range.high);
}

}  // namespace

std::string predict(const PredictOptions& options) {
  const model::Run run = model::build_run(options.traces);
  const std::vector<attribute::RankAttribution> ranks = attribute::attribute(run);
  const auto is_wanted = [&](const attribute::RankAttribution& rank) {
    return !options.rank || std::max(run.processes.at(rank.process).rank, 0) == *options.rank;
  };
  const std::vector<attribute::StepGroup> groups = attribute::step_groups(run, ranks);
  auto rank = std::find_if(ranks.begin(), ranks.end(), is_wanted);
  const attribute::RankAttribution* late = options.rank ? nullptr : late_rank(ranks, groups);
  if (late && predict::extract_loader(run, *late)) rank = ranks.begin() + (late - ranks.data());
  if (rank == ranks.end())
    throw io::UserError("this run has no such rank with training steps; leave --rank out for the first one");
  const auto recording = predict::extract_loader(run, *rank);
  if (!recording)
    throw io::UserError(
        "this run has no DataLoader whose batches were recorded, so there is nothing to predict from; record "
        "a job that uses one");

  const predict::LoaderSetting setting = wanted(options, recording->setting);
  auto prediction = advise::what_if(run, *rank, setting);
  if (!prediction && predict::check(*recording).trust() != predict::Trust::kCeilingOnly)
    throw io::UserError(
        "what this run leaves open about that setting is wider than the step itself, too much for a "
        "prediction; record a run with workers, or on a machine that other programs leave free");
  if (!prediction) {
    if (const auto open = advise::what_if_open(run, *rank, setting))
      throw io::UserError(open_words(setting, *open));
    throw io::UserError(fmt::format(
        "the simulated replay misses the unchanged run by {:.0f}% over {} steps, too much for a prediction; "
        "record 20 or more steady steps",
        100 * predict::check(*recording).error(), recording->steps));
  }
  const auto row = static_cast<size_t>(rank - ranks.begin());
  const attribute::StepGroup* group = attribute::group_of(groups, row);
  if (group) prediction = advise::for_whole_job(*group, ranks, row, *prediction);
  if (!options.json)
    return sentence(setting, *prediction, *recording, group ? waits_words(run, *group, row) : "");
  nlohmann::ordered_json result;
  result["schema"] = "gpuwatch.prediction.v1";
  result["setting"] = setting_json(setting);
  result["limited_by"] = predict::limit_words(*recording, setting);
  result["prediction"] = report::prediction_json(*prediction);
  return result.dump(2) + "\n";
}

}  // namespace gpuwatch::cli
