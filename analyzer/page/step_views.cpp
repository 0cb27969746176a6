// SPDX-License-Identifier: Apache-2.0
#include "analyzer/page/step_views.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "analyzer/io/printable.h"
#include "analyzer/page/rank_labels.h"
#include "analyzer/page/step_choice.h"
#include "analyzer/report/facts.h"
#include "analyzer/timeline/tracks.h"
#include "libinject/trace/op_class.h"

namespace gpuwatch::page {
namespace {

using attribute::Bottleneck;
using attribute::RankAttribution;
using Json = nlohmann::ordered_json;
using model::Ns;

constexpr size_t kMostSlices = 12000, kMostLanes = 48, kMostRanks = 4;

// A call's color is that of the bottleneck which its time would most likely count as; the lane of causes says
// what it does count as.
Bottleneck tone_of(trace::OpClass op_class) {
  if (op_class == trace::OpClass::Copy || op_class == trace::OpClass::Memset) return Bottleneck::Copy;
  const uint16_t traits = trace::op_class_traits::kRows[size_t(op_class)].traits;
  const auto has = [&](uint16_t trait) { return (traits & trait) != 0; };
  using namespace trace::op_class_traits;
  if (has(kCommunicates)) return Bottleneck::Communication;
  if (has(kTakesBatch | kReadsInput | kNamesLoader)) return Bottleneck::Input;
  if (has(kIsRange | kWaitsForThread | kPauses)) return Bottleneck::Other;
  return Bottleneck::Host;
}

Bottleneck tone_of(const model::Run& run, const model::DeviceOp& op) {
  if (op.kernel == model::kNone)
    return op.kind == trace::RecordKind::GraphRun ? Bottleneck::Compute : Bottleneck::Copy;
  return run.kernels.at(op.kernel).is_communication ? Bottleneck::Communication : Bottleneck::Compute;
}

class View {
 public:
  View(const report::Report& report, size_t first_step, Names& names, const RankAttribution& rank,
       model::TimeSpan window)
      : report_(report),
        run_(report.run),
        first_step_(first_step),
        names_(names),
        rank_(rank),
        window_(window) {}

  std::vector<Lane> lanes() {
    const model::Process& process = run_.processes.at(rank_.process);
    add_steps();
    add_causes(rank_, "where the time goes");
    const std::vector<std::string> labels = rank_labels(report_);
    for (size_t i = 0; i < labels.size(); ++i) add_other_rank(process, report_.ranks[i], labels[i]);
    for (size_t device = 0; device < process.devices.size(); ++device) add_streams(process, device);
    add_threads(process, "");
    for (const timeline::WorkerLane& worker : timeline::worker_lanes(process)) add_worker(worker);
    for (const model::Process& worker : run_.processes)
      if (worker.worker_of == rank_.process) add_threads(worker, fmt::format("worker {}: ", worker.pid));
    reduce(lanes_, kMostSlices);
    return std::move(lanes_);
  }
  size_t left_out() const { return left_out_; }

 private:
  bool is_seen(Ns begin, Ns end) const { return begin < window_.end && end > window_.begin; }

  void add(Lane lane) {
    if (lane.slices.empty()) return;
    if (lanes_.size() >= kMostLanes) {
      ++left_out_;
      return;
    }
    lanes_.push_back(std::move(lane));
  }

  void add_steps() {
    Lane lane{.name = "steps"};
    for (size_t i = 0; i < rank_.steps.size(); ++i) {
      const model::Step& step = rank_.steps[i].step;
      if (is_seen(step.begin, step.end))
        lane.slices.push_back(
            {step.begin, step.end, names_.index_of(fmt::format("step {}", first_step_ + i))});
    }
    add(std::move(lane));
  }

  // What a slice is attributed to, and the call that says why.
  void add_causes(const RankAttribution& rank, const std::string& name) {
    const model::Process& process = run_.processes.at(rank.process);
    Lane lane{.name = name};
    auto slice = std::ranges::lower_bound(rank.slices, window_.begin, {}, &attribute::Slice::end);
    for (; slice != rank.slices.end() && slice->begin < window_.end; ++slice) {
      const attribute::CategoryInfo& info = attribute::info(slice->category);
      std::string words(info.words);
      if (slice->thread != model::kNone && slice->call != model::kNone)
        words += ": " + timeline::call_name(run_, process.threads.at(slice->thread).calls.at(slice->call));
      lane.slices.push_back({slice->begin, slice->end, names_.index_of(words), 0, info.bottleneck});
    }
    add(std::move(lane));
  }

  // Only where its clock is this rank's.
  void add_other_rank(const model::Process& process, const RankAttribution& other, const std::string& label) {
    const model::Process& of = run_.processes.at(other.process);
    if (&other != &rank_ && of.host == process.host) add_causes(other, label + ": where the time goes");
  }

  void add_streams(const model::Process& process, size_t device) {
    for (const timeline::StreamLane& stream : timeline::stream_lanes(process, device, window_)) {
      Lane lane{.name = stream.name};
      for (const size_t i : stream.operations) {
        const model::DeviceOp& op = process.devices[device].operations[i];
        lane.slices.push_back(
            {op.begin, op.end, names_.index_of(timeline::operation_name(run_, op)), 0, tone_of(run_, op)});
      }
      add(std::move(lane));
    }
  }

  void add_threads(const model::Process& process, const std::string& prefix) {
    std::vector<size_t> order(process.threads.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::stable_partition(order, [&](size_t i) { return i == process.training_thread; });
    for (const size_t i : order) {
      const model::Thread& thread = process.threads[i];
      const std::string role = timeline::thread_role(process, i);
      const std::string name = fmt::format("{}{} {}", prefix, role.empty() ? "thread" : role, thread.tid);
      Lane ranges{.name = name + " (NVTX)"}, calls{.name = name};
      for (const model::Range& range : thread.ranges)
        if (!range.is_process && !range.is_mark && is_seen(range.begin, range.end))
          if (const auto text = run_.texts.find(range.name); text != run_.texts.end())
            ranges.slices.push_back({range.begin, range.end, names_.index_of(io::printable(text->second))});
      for (const model::HostCall& call : thread.calls)
        if (call.end > call.begin && is_seen(call.begin, call.end))
          calls.slices.push_back({call.begin, call.end, names_.index_of(timeline::call_name(run_, call)), 0,
                                  tone_of(call.op_class)});
      nest(ranges);
      nest(calls);
      add(std::move(ranges));
      add(std::move(calls));
    }
  }

  void add_worker(const timeline::WorkerLane& worker) {
    Lane lane{.name = worker.name};
    for (const auto& [epoch, batch] : worker.fetches)
      if (is_seen(batch->fetch.begin, batch->fetch.end))
        lane.slices.push_back({batch->fetch.begin, batch->fetch.end,
                               names_.index_of(fmt::format("batch {}", batch->index)), 0, Bottleneck::Input});
    add(std::move(lane));
  }

  const report::Report& report_;
  const model::Run& run_;
  size_t first_step_;
  Names& names_;
  const RankAttribution& rank_;
  model::TimeSpan window_;
  std::vector<Lane> lanes_;
  size_t left_out_ = 0;
};

std::string title_of(const ChosenSteps& chosen, size_t first_step, Ns length) {
  std::string title =
      chosen.end - chosen.begin == 1
          ? fmt::format("step {}", first_step + chosen.begin)
          : fmt::format("steps {} to {}", first_step + chosen.begin, first_step + chosen.end - 1);
  title += fmt::format(": {} ms", report::three_digits(double(length) / 1e6));
  return chosen.why.empty() ? title : fmt::format("{}, {}", title, chosen.why);
}

// With what happened shortly before and after: what a step waits for may have begun there.
Json view_of(const report::Report& report, const RankAttribution& rank, const ChosenSteps& chosen,
             size_t first_step, Names& names) {
  const model::TimeSpan steps{rank.steps[chosen.begin].step.begin, rank.steps[chosen.end - 1].step.end};
  const Ns margin = steps.length() / 10;
  const model::TimeSpan window{steps.begin - margin, steps.end + margin};
  View view(report, first_step, names, rank, window);
  Json lanes = Json::array();
  for (const Lane& lane : view.lanes()) lanes.push_back(json(lane, steps.begin));
  return {{"title", title_of(chosen, first_step, steps.length())},
          {"row", &rank - report.ranks.data()},
          {"begin_step", chosen.begin},
          {"end_step", chosen.end},
          {"begin_ns", -margin},
          {"end_ns", steps.length() + margin},
          {"step_ns", steps.length()},
          {"lanes_left_out", view.left_out()},
          {"lanes", std::move(lanes)}};
}

}  // namespace

Json step_views(const report::Report& report, size_t first_step, Names& names) {
  Json views = Json::array();
  const RankAttribution* const shown = report::shown_rank(report);
  if (!shown) return views;
  for (const ChosenSteps& chosen : choose_steps(*shown, true))
    views.push_back(view_of(report, *shown, chosen, first_step, names));
  size_t others = 0;
  for (const RankAttribution& rank : report.ranks)
    if (&rank != shown && ++others < kMostRanks)
      for (const ChosenSteps& chosen : choose_steps(rank, false))
        views.push_back(view_of(report, rank, chosen, first_step, names));
  return views;
}

}  // namespace gpuwatch::page
