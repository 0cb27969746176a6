// SPDX-License-Identifier: Apache-2.0
#include "analyzer/page/loader_views.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "analyzer/timeline/tracks.h"

namespace gpuwatch::page {
namespace {

using attribute::Bottleneck;
using Json = nlohmann::ordered_json;
using model::Ns;

constexpr size_t kMostSlices = 8000, kMostLanes = 64, kMostRanks = 4;

double ms(Ns ns) {
  return std::round(double(ns) / 1e3) / 1e3;  // to the microsecond
}

Json details(size_t epoch, const model::Batch& batch) {
  const Ns reading = std::max(batch.fetch_io_ns, batch.fetch_blocked_ns);
  const bool has_waited = batch.next.length() > 0;
  return {epoch,
          batch.index,
          ms(batch.fetch.length()),
          ms(batch.fetch_cpu_ns),
          ms(reading),
          ms(batch.collate_ns),
          ms(batch.fetch_run_delay_ns),
          has_waited ? Json(ms(batch.next.begin - batch.fetch.end)) : Json(nullptr),
          has_waited ? Json(ms(batch.next.length())) : Json(nullptr)};
}

class Lanes {
 public:
  Lanes(const model::Process& process, Names& names) : process_(process), names_(names) {}

  Json view(int rank) {
    add_training_thread();
    for (const timeline::WorkerLane& worker : timeline::worker_lanes(process_)) {
      lanes_.push_back({.name = worker.name});
      for (const auto& [epoch, batch] : worker.fetches) add_batch(lanes_.back(), epoch, *batch);
    }
    std::erase_if(lanes_, [](const Lane& lane) { return lane.slices.empty(); });
    if (lanes_.empty()) return nullptr;
    const size_t left_out = lanes_.size() - std::min(lanes_.size(), kMostLanes);
    lanes_.resize(lanes_.size() - left_out);
    return written(rank, left_out);
  }

 private:
  struct Of {
    size_t epoch;
    const model::Batch* batch;
  };

  void add_batch(Lane& lane, size_t epoch, const model::Batch& batch) {
    lane.slices.push_back({.begin = batch.fetch.begin,
                           .end = batch.fetch.end,
                           .name = names_.index_of("batch"),
                           .tone = Bottleneck::Input,
                           .batch = uint32_t(batches_.size())});
    batches_.push_back({epoch, &batch});
  }

  void add_training_thread() {
    Lane waits{.name = "training thread waits"}, makes{.name = "training thread loads"};
    for (size_t epoch = 0; epoch < process_.epochs.size(); ++epoch)
      for (const model::Batch& batch : process_.epochs[epoch].batches) {
        if (batch.worker == model::kNone && batch.fetch.length() > 0) {
          add_batch(makes, epoch, batch);
        } else if (batch.next.length() > 0) {
          add_batch(waits, epoch, batch);
          waits.slices.back().begin = batch.next.begin;
          waits.slices.back().end = batch.next.end;
        }
      }
    for (Lane* lane : {&waits, &makes}) {
      std::ranges::stable_sort(lane->slices, {}, &Slice::begin);
      lanes_.push_back(std::move(*lane));
    }
  }

  // Only the batches that are still drawn one by one keep their details.
  Json written(int rank, size_t left_out) {
    Ns begin = lanes_.front().slices.front().begin, end = begin;
    Json lanes = Json::array(), kept = Json::array();
    reduce(lanes_, kMostSlices);
    for (Lane& lane : lanes_) {
      begin = std::min(begin, lane.slices.front().begin);
      for (Slice& slice : lane.slices) {
        end = std::max(end, slice.end);
        if (slice.batch == model::kNone) continue;
        const Of of = batches_[slice.batch];
        slice.batch = uint32_t(kept.size());
        kept.push_back(details(of.epoch, *of.batch));
      }
    }
    for (const Lane& lane : lanes_) lanes.push_back(json(lane, begin));
    return {{"rank", rank},
            {"begin_ns", 0},
            {"end_ns", std::max<Ns>(end - begin, 1)},
            {"lanes_left_out", left_out},
            {"lanes", std::move(lanes)},
            {"batches", std::move(kept)}};
  }

  const model::Process& process_;
  Names& names_;
  std::vector<Lane> lanes_;
  std::vector<Of> batches_;  // by Slice::batch
};

}  // namespace

Json loader_views(const report::Report& report, Names& names) {
  Json views = Json::array();
  std::vector<uint32_t> seen;
  for (const attribute::RankAttribution& rank : report.ranks) {
    if (views.size() >= kMostRanks || std::ranges::find(seen, rank.process) != seen.end()) continue;
    seen.push_back(rank.process);
    const model::Process& process = report.run.processes.at(rank.process);
    Json view = Lanes(process, names).view(std::max(process.rank, 0));
    if (!view.is_null()) views.push_back(std::move(view));
  }
  return views;
}

}  // namespace gpuwatch::page
