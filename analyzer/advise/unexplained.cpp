// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/unexplained.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/advise/call_words.h"
#include "analyzer/advise/location.h"
#include "analyzer/advise/place_words.h"
#include "analyzer/io/printable.h"
#include "analyzer/model/stacks.h"
#include "analyzer/model/training_stacks.h"

namespace gpuwatch::advise {
namespace {

using attribute::Bottleneck;
using attribute::Category;
using attribute::RankAttribution;

constexpr double kLeastShare = 0.05;  // of the step; XProf's lower band, as for the verdict
constexpr double kCovered = 0.5;      // of a category's time: more than half of it is somebody's

bool is_explained(const model::Run& run, const RankAttribution& rank, const std::vector<Finding>& findings,
                  Category category) {
  double covered = 0;
  for (const Finding& finding : findings)
    if (finding.is_complaint() && finding.explains.contains(category) &&
        is_about(run.processes.at(rank.process), finding))
      covered += finding.lost_share;
  return covered >= kCovered * rank.share(category);
}

struct Site {
  model::Ns ns = 0, longest = 0;
  uint32_t thread = model::kNone, call = model::kNone;  // of the longest piece
};

// The operation and caller with most of the category's time.
Site largest_site(const model::Process& process, const RankAttribution& rank, Category category) {
  std::map<std::pair<uint16_t, uint64_t>, Site> sites;
  for (const attribute::Slice& slice : rank.slices) {
    if (slice.category != category || slice.thread >= process.threads.size()) continue;
    const model::Thread& thread = process.threads[slice.thread];
    if (slice.call >= thread.calls.size()) continue;
    const model::HostCall& call = thread.calls[slice.call];
    Site& site = sites[{call.operation, model::caller_of(thread, call)}];
    const model::Ns ns = slice.end - slice.begin;
    site.ns += ns;
    if (ns <= site.longest) continue;
    site.longest = ns;
    site.thread = slice.thread;
    site.call = slice.call;
  }
  Site largest;
  for (const auto& [key, site] : sites)
    if (site.ns > largest.ns) largest = site;
  return largest;
}

std::string worker_place(const model::Run& run, const model::Process& process) {
  const model::WorkerActivity most = model::main_worker_activity(run, process);
  if (most.functions.empty()) return "";
  return fmt::format("; workers were seen most in {}", place_words(most.functions.front().frame));
}

std::string where_it_is(const model::Run& run, const RankAttribution& rank, Category category) {
  const model::Process& process = run.processes.at(rank.process);
  if (attribute::info(category).bottleneck == Bottleneck::Input)
    if (std::string place = worker_place(run, process); !place.empty()) return place;
  if (attribute::info(category).group == attribute::Group::DeviceBusy)
    return "";  // a launch says nothing of it
  if (const auto seen = model::main_training_function(run, process, attribute::times_of(rank, category)))
    return fmt::format("; {:.0f}% of it in {}", 100 * seen->share, place_words(seen->frame));
  const Site site = largest_site(process, rank, category);
  if (site.call == model::kNone) return "";
  const uint16_t operation = process.threads[site.thread].calls[site.call].operation;
  const std::string location = call_location(run, process, site.thread, site.call);
  const double share = double(site.ns) / double(std::max<model::Ns>(rank.time(category), 1));
  return fmt::format("; {:.0f}% of it at {}{}", 100 * share,
                     operation < run.operations.size()
                         ? io::printable(call_words(process, run.operations[operation].name))
                         : "one call",
                     location.empty() ? "" : fmt::format(" ({})", short_location(location)));
}

// The report's limits say what could not be observed, its verdict what others took; compute is the job's own.
bool needs_a_cause(Category category) {
  const Bottleneck bottleneck = attribute::info(category).bottleneck;
  return bottleneck != Bottleneck::Compute && bottleneck != Bottleneck::Unobserved &&
         bottleneck != Bottleneck::Machine;
}

}  // namespace

double unexplained_share(const model::Run& run, const RankAttribution& rank,
                         const std::vector<Finding>& findings, Bottleneck bottleneck) {
  double share = 0;
  for (size_t i = 0; i < attribute::kCategoryCount; ++i) {
    const auto category = static_cast<Category>(i);
    if (attribute::info(category).bottleneck == bottleneck && !is_explained(run, rank, findings, category))
      share += rank.share(category);
  }
  return share;
}

std::vector<Limit> unexplained(const model::Run& run, const RankAttribution& rank,
                               const std::vector<Finding>& findings) {
  std::vector<Limit> sentences;
  for (size_t i = 0; i < attribute::kCategoryCount; ++i) {
    const auto category = static_cast<Category>(i);
    const double share = rank.share(category);
    if (share < kLeastShare || !needs_a_cause(category) || is_explained(run, rank, findings, category))
      continue;
    sentences.push_back({fmt::format("No rule explains {:.0f}% of each step: {} ({:.3g} ms){}.", 100 * share,
                                     attribute::info(category).words, share * rank.mean_step_ms(),
                                     where_it_is(run, rank, category)),
                         true});
  }
  return sentences;
}

}  // namespace gpuwatch::advise
