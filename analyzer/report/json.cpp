// SPDX-License-Identifier: Apache-2.0
// The contract gpuwatch.report.v1: fields may be added, never changed or removed.
#include <algorithm>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>

#include "analyzer/attribute/device_work.h"
#include "analyzer/io/printable.h"
#include "analyzer/model/phases.h"
#include "analyzer/model/stacks.h"
#include "analyzer/model/training_stacks.h"
#include "analyzer/report/facts.h"
#include "libinject/trace/layout.h"

namespace gpuwatch::report {
namespace {

using Json = nlohmann::ordered_json;

// Valid UTF-8 without control characters; longer than a terminal line where a name is.
std::string clean(const std::string& text) {
  return io::printable(text, 4096);
}
Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(clean(text));
}
Json known(int value) {
  return value < 0 ? Json(nullptr) : Json(value);
}
Json flag(int value) {
  return value < 0 ? Json(nullptr) : Json(value != 0);
}

Json texts(const std::vector<std::string>& words) {
  Json result = Json::array();
  for (const std::string& each : words) result.push_back(clean(each));
  return result;
}

const model::Process* main_process(const Report& report) {
  if (!report.ranks.empty()) return &report.run.processes.at(report.ranks.front().process);
  for (const model::Process& process : report.run.processes)
    if (process.worker_of == model::kNone) return &process;
  return nullptr;
}

std::string version_number(int version) {
  if (version <= 0) return "";
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Json versions(const Report& report) {
  const model::Process* process = main_process(report);
  Json result;
  result["gpuwatch"] = report.version;
  result["format"] = std::to_string(trace::kMajorVersion) + "." + std::to_string(trace::kMinorVersion);
  auto of_fact = [&](const char* key) { return process ? text_or_null(fact(*process, key)) : Json(nullptr); };
  result["python"] = of_fact("python");
  result["framework"] = process ? text_or_null(framework(*process)) : Json(nullptr);
  std::string cuda, driver;
  if (process && !process->devices.empty()) {
    cuda = version_number(process->devices.front().runtime_version);
    driver = version_number(process->devices.front().driver_version);
  }
  result["cuda"] = text_or_null(cuda);
  result["driver"] = text_or_null(driver);
  result["nccl"] = of_fact("nccl");
  return result;
}

std::string utc(int64_t realtime_ns) {
  if (realtime_ns <= 0) return "";
  std::time_t seconds = realtime_ns / 1'000'000'000;
  std::tm parts{};
  char buffer[32];
  if (!gmtime_r(&seconds, &parts) || !std::strftime(buffer, sizeof buffer, "%Y-%m-%dT%H:%M:%SZ", &parts))
    return "";
  return buffer;
}

Json job(const Report& report) {
  const model::Process* process = main_process(report);
  Json result;
  result["run_id"] = text_or_null(report.run.run_id);
  result["user"] = process ? text_or_null(process->user) : Json(nullptr);
  result["scheduler"] = process ? text_or_null(fact(*process, "scheduler")) : Json(nullptr);
  result["script"] = process ? text_or_null(process->script) : Json(nullptr);
  int64_t start = process ? process->start_realtime_ns : 0;
  result["start"] = text_or_null(utc(start));
  result["end"] =
      process && start > 0 ? text_or_null(utc(start + (process->last_seen - process->start))) : Json(nullptr);
  result["end_state"] = process ? end_words(*process) : "unknown";
  Json waiting = Json::array();
  if (process && process->end_state != model::EndState::kExited)
    for (const OpenCallWords& call : open_call_words(report.run, *process))
      waiting.push_back(clean(call.sentence));
  result["open_calls"] = waiting;
  result["applied"] = texts(process ? applied_words(report.run, *process) : std::vector<std::string>());
  result["not_applied"] = texts(process ? not_applied_words(*process) : std::vector<std::string>());
  return result;
}

Json trace(const Report& report) {
  Json result;
  uint64_t lost = 0;
  for (const model::Process& process : report.run.processes)
    for (const auto& [reason, count] : process.dropped_records) lost += count;
  result["processes"] = report.run.processes.size();
  result["ranks"] = report.ranks.size();
  result["duration_s"] = duration_s(report.run);
  result["events"] = report.run.events;
  result["bytes"] = report.run.bytes;
  result["lost_events"] = lost;
  result["recorded_share"] = recorded_share(report);
  result["clock_error_ns"] = report.run.clock_error_ns;
  return result;
}

Json coverage(const Report& report) {
  Json sources = Json::object();
  for (const model::Process& process : report.run.processes) {
    if (!process.is_rank()) continue;
    for (const auto& [name, status] : process.sources)
      if (!sources.contains(clean(name)) || !status.is_on()) sources[clean(name)] = clean(status.text);
  }
  Json result;
  result["sources"] = sources;
  result["launches_matched_share"] =
      report.run.kernels_total ? Json(matched_share(report.run)) : Json(nullptr);
  const model::CallsWithoutRecord& missing = report.run.without_record;
  result["launches_without_record"] = missing.all_launches();
  result["calls_without_record"] = {{"launches", missing.launches},
                                    {"graph_launches", missing.graph_launches},
                                    {"copies", missing.copies},
                                    {"memsets", missing.memsets},
                                    {"unclear", missing.unclear}};
  return result;
}

Json steps(const attribute::RankAttribution& rank) {
  StepFacts facts = step_facts(rank);
  Json result;
  result["count"] = facts.count;
  result["recorded"] = facts.recorded;
  result["mean_ms"] = facts.mean_ms;
  result["p50_ms"] = facts.p50_ms;
  result["p95_ms"] = facts.p95_ms;
  bool has_samples = facts.samples_per_step > 0;
  result["samples_per_step"] = has_samples ? Json(facts.samples_per_step) : Json(nullptr);
  result["samples_per_s"] = has_samples ? Json(facts.samples_per_s) : Json(nullptr);
  result["source"] = clean(facts.source);
  return result;
}

Json attribution(const attribute::RankAttribution& rank) {
  Json result = Json::array();
  for (size_t i = 0; i < attribute::kCategoryCount; ++i) {
    model::Ns ns = rank.times[i];
    if (ns == 0) continue;
    Json entry;
    entry["category"] = attribute::kCategories[i].name;
    entry["ns"] = ns;
    entry["seconds"] = double(ns) / 1e9;
    entry["share"] = rank.wall_ns ? double(ns) / double(rank.wall_ns) : 0;
    result.push_back(entry);
  }
  return result;
}

Json functions_json(const std::vector<model::SeenFunction>& functions) {
  constexpr size_t kMost = 10;
  Json result = Json::array();
  for (size_t i = 0; i < std::min(kMost, functions.size()); ++i) {
    const model::SeenFunction& seen = functions[i];
    result.push_back({{"location", clean(seen.frame.location())},
                      {"function", clean(seen.frame.function)},
                      {"samples", seen.samples},
                      {"share", seen.share}});
  }
  return result;
}

// Where the training thread was seen in the recorded steps, in the whole recording if it has none; null
// without samples.
Json training_time(const Report& report, const attribute::RankAttribution& row) {
  std::vector<model::TimeSpan> steps;
  for (const attribute::StepAttribution& step : row.steps) steps.push_back({step.step.begin, step.step.end});
  const model::Process& process = report.run.processes.at(row.process);
  const auto functions = steps.empty() ? model::training_functions(report.run, process)
                                       : model::training_functions(report.run, process, steps);
  return functions.empty() ? Json(nullptr) : functions_json(functions);
}

// What the workers were seen doing while the consumer waited, null without samples.
Json worker_functions(const model::WorkerActivity& activity) {
  if (activity.stack_samples == 0) return nullptr;
  Json result;
  result["samples"] = activity.stack_samples;
  result["busy_share"] = activity.busy_share;
  result["functions"] = functions_json(activity.functions);
  return result;
}

Json loader(const LoaderFacts& facts) {
  const model::Loader& configured = *facts.loader;
  Json result;
  result["class"] = clean(configured.class_name);
  result["framework"] = clean(configured.framework);
  result["dataset"] = clean(configured.dataset);
  result["num_workers"] = known(configured.num_workers);
  result["batch_size"] = known(configured.batch_size);
  result["pin_memory"] = flag(configured.pin_memory);
  result["prefetch_factor"] = known(configured.prefetch_factor);
  result["persistent_workers"] = flag(configured.persistent_workers);
  result["iterators"] = facts.iterators;
  result["batches"] = facts.batches;
  result["wait_s"] = facts.wait_s;
  result["fetch_ms_mean"] = facts.fetch_ms_mean;
  result["location"] = text_or_null(configured.location);
  return result;
}

// What the process did beside its steps; checkpoints and epoch changes may lie inside of steps.
Json phases(const model::Process& process, const attribute::RankAttribution& row) {
  using model::PhaseKind;
  const std::vector<model::Phase> found = model::find_phases(process, row.series);
  Json result = Json::array();
  for (PhaseKind kind :
       {PhaseKind::kStartup, PhaseKind::kEvaluation, PhaseKind::kCheckpoint, PhaseKind::kEpochChange}) {
    const auto count = std::count_if(found.begin(), found.end(),
                                     [&](const model::Phase& phase) { return phase.kind == kind; });
    if (count == 0) continue;
    result.push_back({{"kind", model::name_of(kind)},
                      {"count", count},
                      {"seconds", double(model::total(found, kind)) / 1e9}});
  }
  return result;
}

Json device_work(const Report& report, const attribute::RankAttribution& row) {
  constexpr size_t kMost = 20;
  if (!row.device_observed || row.steps.empty()) return nullptr;
  const attribute::DeviceWork work = attribute::device_work(report.run, row);
  const auto share = [&](model::Ns ns) { return row.wall_ns ? double(ns) / double(row.wall_ns) : 0; };
  Json result;
  result["kernel_classes"] = Json::array();
  for (const attribute::ClassTime& found : work.classes)
    result["kernel_classes"].push_back({{"class", model::info(found.kernel_class).name},
                                        {"ns", found.time.ns},
                                        {"alone_ns", found.time.alone_ns},
                                        {"share", share(found.time.ns)},
                                        {"count", found.time.count}});
  result["kernels"] = Json::array();
  for (size_t i = 0; i < std::min(kMost, work.kernels.size()); ++i) {
    const attribute::KernelTime& kernel = work.kernels[i];
    result["kernels"].push_back({{"name", clean(std::string(kernel.name))},
                                 {"class", model::info(kernel.kernel_class).name},
                                 {"ns", kernel.ns},
                                 {"share", share(kernel.ns)},
                                 {"count", kernel.count}});
  }
  result["communication"] = nullptr;
  if (const auto& communication = work.communication)
    result["communication"] = {{"ns", communication->ns},
                               {"exposed_ns", communication->exposed_ns},
                               {"hidden_share", communication->hidden_share()},
                               {"count", communication->count}};
  result["launch_queue"] = nullptr;
  if (const auto queue = attribute::launch_queue(report.run, row))
    result["launch_queue"] = {{"launches", queue->launches},
                              {"median_ns", queue->median_ns},
                              {"median_depth", queue->median_depth},
                              {"empty_share", queue->empty_share}};
  return result;
}

Json rank(const Report& report, const attribute::RankAttribution& row) {
  const model::Process& process = report.run.processes.at(row.process);
  Json result;
  result["rank"] = process.rank >= 0 ? process.rank : 0;
  result["host"] = clean(process.host);
  result["pid"] = process.pid;
  result["device"] = clean(device_name(report, row));
  result["framework"] = text_or_null(framework(process));
  result["steps"] = steps(row);
  result["wall_ns"] = row.wall_ns;
  result["attribution"] = attribution(row);
  result["device_work"] = device_work(report, row);
  result["phases"] = phases(process, row);
  result["training_time"] = training_time(report, row);
  result["loaders"] = Json::array();
  for (const LoaderFacts& facts : loader_facts(process)) {
    Json entry = loader(facts);
    const auto index = uint32_t(facts.loader - process.loaders.data());
    entry["worker_time"] = worker_functions(model::worker_activity(report.run, process, index));
    result["loaders"].push_back(std::move(entry));
  }
  return result;
}

Json prediction(const std::optional<predict::Prediction>& predicted) {
  if (!predicted) return nullptr;
  Json result;
  result["metric"] = predicted->metric;
  result["now"] = predicted->now;
  result["low"] = predicted->value.low;
  result["expected"] = predicted->value.expected;
  result["high"] = predicted->value.high;
  result["speedup"] = {{"low", predicted->speedup.low},
                       {"expected", predicted->speedup.expected},
                       {"high", predicted->speedup.high}};
  result["assumptions"] = Json::array();
  for (const std::string& assumption : predicted->assumptions)
    result["assumptions"].push_back(clean(assumption));
  return result;
}

// Ranks that wait for each other in every step: additive to the contract.
Json rank_group(const Report& report, const attribute::StepGroup& group) {
  const auto number = [&](const attribute::GroupMember& member) {
    const int rank = report.run.processes.at(member.process).rank;
    return rank < 0 ? Json(nullptr) : Json(rank);
  };
  Json result;
  result["step_ms"] = group.step_ms;
  result["steps"] = group.steps;
  result["members"] = Json::array();
  for (const attribute::GroupMember& member : group.members)
    result["members"].push_back({{"rank", number(member)},
                                 {"pid", report.run.processes.at(member.process).pid},
                                 {"own_ms", group.step_ms - member.waiting_ms},
                                 {"waiting_ms", member.waiting_ms},
                                 {"waited_for_share", member.waited_for},
                                 {"times_last", member.times_last}});
  result["straggler"] = nullptr;
  if (const auto& late = group.late)
    result["straggler"] = {
        {"rank", number(*group.late_member())},
        {"by", late->bottleneck ? Json(attribute::words(*late->bottleneck)) : Json(nullptr)},
        {"category", late->bottleneck ? Json(attribute::info(late->category).name) : Json(nullptr)},
        {"own_ms", late->own_ms},
        {"others_ms", late->others_ms},
        {"others_wait_ms", late->others_wait_ms},
        {"step_without_ms", group.step_without_ms(late->member)}};
  return result;
}

const char* severity_name(advise::Severity severity) {
  switch (severity) {
    case advise::Severity::kInfo:
      return "info";
    case advise::Severity::kMinor:
      return "minor";
    case advise::Severity::kMajor:
      break;
  }
  return "major";
}

Json finding(const advise::Finding& found) {
  Json result;
  result["id"] = found.id;
  result["severity"] = severity_name(found.severity);
  result["title"] = clean(found.title);
  result["ranks"] = found.ranks;
  result["lost_share"] = found.lost_share;
  result["evidence"] = Json::array();
  for (const advise::Evidence& evidence : found.evidence)
    result["evidence"].push_back(
        {{"what", clean(evidence.what)}, {"value", evidence.value}, {"unit", clean(evidence.unit)}});
  result["fix"] = {{"summary", clean(found.fix.summary)},
                   {"setting", text_or_null(advise::setting_name(found.fix.change))},
                   {"value", text_or_null(advise::setting_value(found.fix.change))},
                   {"location", text_or_null(found.fix.location)},
                   {"snippet", text_or_null(found.fix.snippet)}};
  result["prediction"] = prediction(found.prediction);
  result["alone"] = prediction(found.alone);
  result["alternative"] = found.is_alternative;
  result["conditional"] = found.is_conditional;
  result["bottleneck"] = found.bottleneck ? Json(attribute::words(*found.bottleneck)) : Json(nullptr);
  result["explains"] = Json::array();
  for (const attribute::CategoryInfo& info : attribute::kCategories)
    if (found.explains.contains(static_cast<attribute::Category>(&info - attribute::kCategories)))
      result["explains"].push_back(info.name);
  result["ceiling"] = found.ceiling_speedup ? Json({{"speedup", *found.ceiling_speedup}}) : Json(nullptr);
  return result;
}

}  // namespace

nlohmann::ordered_json prediction_json(const predict::Prediction& predicted) {
  return prediction(predicted);
}

nlohmann::ordered_json json(const Report& report) {
  Json result;
  result["schema"] = "gpuwatch.report.v1";
  result["versions"] = versions(report);
  result["job"] = job(report);
  const advise::Verdict& verdict = report.diagnosis.verdict;
  result["verdict"] = {{"id", verdict.id},
                       {"sentence", clean(verdict.sentence)},
                       {"ceiling_speedup", verdict.ceiling_speedup}};
  result["trace"] = trace(report);
  result["coverage"] = coverage(report);
  const std::optional<double> overhead = overhead_share(report);
  result["overhead"] = {{"estimated_share", overhead ? Json(*overhead) : Json(nullptr)}};
  result["ranks"] = Json::array();
  for (const attribute::RankAttribution& row : report.ranks) result["ranks"].push_back(rank(report, row));
  result["rank_groups"] = Json::array();
  for (const attribute::StepGroup& group : report.diagnosis.groups)
    result["rank_groups"].push_back(rank_group(report, group));
  result["findings"] = Json::array();
  for (const advise::Finding& found : report.diagnosis.findings) result["findings"].push_back(finding(found));
  result["together"] = prediction(report.diagnosis.together);
  const std::string& unproposed_on = report.diagnosis.unproposed_on;
  const advise::UnproposedChanges& unproposed = report.diagnosis.unproposed;
  result["no_gain"] = {{"on", text_or_null(unproposed_on)}, {"changes", texts(unproposed.no_gain)}};
  result["may_gain"] = {{"on", text_or_null(unproposed_on)}, {"changes", texts(unproposed.may_gain)}};
  result["limits"] = Json::array();
  for (const advise::Limit& limit : report.diagnosis.limits)
    result["limits"].push_back(clean(limit.sentence));
  return result;
}

}  // namespace gpuwatch::report
