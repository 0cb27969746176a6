// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "analyzer/advise/ceiling.h"
#include "analyzer/advise/copies.h"
#include "analyzer/advise/host_calls.h"
#include "analyzer/advise/host_gaps.h"
#include "analyzer/advise/remedy_words.h"
#include "analyzer/advise/reported_ranges.h"
#include "analyzer/advise/sync_places.h"
#include "analyzer/advise/sync_reads.h"
#include "analyzer/advise/work_on_results.h"
#include "analyzer/predict/merged_launches.h"

namespace gpuwatch::advise {

extern const Rule kSyncPerStep;

namespace {

using attribute::Category;

constexpr double kLeastOfSteps = 0.5;
constexpr size_t kMostPlaces = 8;
constexpr double kNoGain = 1.005;
constexpr const char* kDeviceSynchronize = "cudaDeviceSynchronize";

constexpr Threshold kThresholds[] = {
    {"steps in which the host waits at one place", kLeastOfSteps, "of the steps",
     "rarer waits are what the fix proposes"},
    {"places that are tried together", double(kMostPlaces), "places",
     "those with the longest waits; the shares of others are small"},
    {"what a place has to gain to be named with the others", kNoGain, "times",
     "less is not told from the model error"},
    {"waits by torch.cuda.synchronize(), for an upper bound that includes launching", kWaitsLikeBlocking,
     "of the launches", "they time layers, and the hooks and clocks for that go with them"},
    {"D2H copy of a loss or a count, not of data", kFewBytes, "bytes", "the fix for data is another one"},
    kFastestCopies,
    kWidestPrediction,
    kLeastGain,
};

using Places = std::vector<SyncPlace>;

// Those in most steps, longest waits first.
Places frequent_places(const RuleInput& input) {
  Places places = sync_places(input);
  std::erase_if(places, [&](const SyncPlace& place) {
    return double(place.steps) < kLeastOfSteps * double(input.rank.steps.size());
  });
  std::ranges::sort(places, std::ranges::greater(), &SyncPlace::waited_ns);
  if (places.size() > kMostPlaces) places.resize(kMostPlaces);
  return places;
}

// A copy that does not block the host goes to pinned memory, and takes the device as long as such copies.
predict::StreamReplayInput without(const RuleInput& input, const Places& places, double bytes_per_ns) {
  predict::StreamReplayInput changed = *input.assumed_streams;
  const predict::EventFilter waits = waits_at(places);
  predict::drop_synchronizations(changed, waits);
  for (const predict::HostEvent& event : changed.events) {
    if (bytes_per_ns <= 0 || event.op_count == 0 || !waits(event)) continue;
    predict::StreamOp& op = changed.ops[event.first_op];
    op.duration_ns =
        std::min(op.duration_ns, double(input.device->operations[op.device_op].bytes) / bytes_per_ns);
  }
  return changed;
}

double step_ms_without(const RuleInput& input, const Places& places) {
  return predict::replay(without(input, places, pinned_bandwidth(*input.device, CopyKind::CopyD2H))).step_ms;
}

// The place that gains most alone. Where another one would take its place (a second .item(), cudaFree), all
// of those that have to go together.
Places places_to_change(const RuleInput& input) {
  Places all = frequent_places(input), best;
  double best_ms = 0;
  for (const SyncPlace& place : all) {
    const double ms = place.is_free ? 0 : step_ms_without(input, {place});
    if (place.is_free || (!best.empty() && ms >= best_ms)) continue;
    best = {place};
    best_ms = ms;
  }
  if (best.empty() || all.size() < 2) return best;
  const double all_ms = step_ms_without(input, all);
  if (best_ms < all_ms * kLeastSpeedup) return best;
  for (size_t i = all.size(); i-- > 0;) {
    Places fewer = all;
    fewer.erase(fewer.begin() + long(i));
    if (step_ms_without(input, fewer) < all_ms * kNoGain) all = std::move(fewer);
  }
  return all;
}

std::string sentence(std::string words) {
  if (!words.empty() && words[0] >= 'a' && words[0] <= 'z') words[0] = char(words[0] - 'a' + 'A');
  return words;
}

double count(const Places& places, size_t SyncPlace::*member) {
  double sum = 0;
  for (const SyncPlace& place : places) sum += double(place.*member);
  return sum;
}

// What PyTorch reads by itself has other remedies, next to that of the script's reads or in place of it.
void add_reads(Finding& finding, const SyncReads& reads) {
  for (const std::string& remedy : reads.remedies) {
    const bool is_first = !reads.has_own && &remedy == &reads.remedies.front();
    finding.fix.summary = is_first ? sentence(remedy) : finding.fix.summary + "; " + remedy;
    if (is_first) finding.fix.snippet.clear();
  }
}

// A mask as a factor computes what was left out, too: how long that takes is not known. A fused optimizer is
// faster itself: one that looped over parameters took 14% of the step.
void allow_for_reads(Finding& finding, const RuleInput& input, const SyncReads& reads) {
  if (!finding.prediction || !finding.timeline) return;
  if (reads.has_shapes) return give_as_bound(finding);
  if (!reads.has_overflow) return;
  predict::StreamReplayInput fused = *finding.timeline;
  const auto of_optimizer = [&](const predict::HostEvent& event) {
    return event.op_count > 0 && fused.ops[event.first_op].is_of_optimizer;
  };
  predict::merge_launches(fused, of_optimizer,
                          {.longest_gap_ns = HostGaps(input).longest_dispatch_ns(), .keeps_kernels = false});
  const auto best = stream_prediction(input, fused);
  if (!best || best->value.low >= finding.prediction->value.low) return;
  finding.prediction->value.low = best->value.low;
  finding.prediction->speedup.high = best->speedup.high;
  finding.prediction->assumptions.emplace_back("at best the fused optimizer's kernels take no time");
}

// Not a loss or a count.
bool fetch_data(const Places& places) {
  double bytes = 0;
  for (const SyncPlace& place : places) bytes += place.bytes / std::max(1.0, double(place.times));
  return bytes > kFewBytes * double(places.size());
}

// torch.cuda.synchronize() around each layer, to time it.
bool time_layers(const RuleInput& input, const std::string& functions) {
  return speaks_torch(input.process) && functions == kDeviceSynchronize && waits_like_blocking(input);
}

// Hooks and clocks go with the waits, and what they take is within the gaps between launches: where a replay
// without the waits alone gained 1.2x, the job without its timers was 2.2 times as fast.
void bound_with_launch_gaps(Finding& finding, const RuleInput& input,
                            const predict::StreamReplayInput& without_waits) {
  const double launching = HostGaps(input).launch_share();
  // Has a name because GCC 12 warns of memory beyond it when a temporary is moved into the list.
  const Evidence idle = {"GPU idle while the host launches, of which timers and hooks are a part",
                         100 * launching, "% of the step"};
  finding.evidence.insert(finding.evidence.begin() + 1, idle);
  finding.lost_share = std::min(1.0, finding.lost_share + launching);
  finding.prediction.reset();
  finding.timeline.reset();
  finding.ceiling_speedup = ceiling_without(input, finding.lost_share, without_waits);
}

void name_fix(Finding& finding, const RuleInput& input, const Places& places, const SyncReads& reads) {
  finding.fix.change = StreamChange{StreamEdit::kDropSynchronizations, "synchronisation", ""};
  const std::string functions = functions_of(input, places);
  const bool fetches_data = fetch_data(places);
  const bool frees = std::ranges::any_of(places, &SyncPlace::is_free);
  if (const auto words =
          remedy_words(input.process, fetches_data ? Remedy::kReadLater : Remedy::kKeepOnGpu)) {
    finding.fix.summary = words->summary;
    finding.fix.snippet = words->snippet;
  } else if (!speaks_torch(input.process)) {
    finding.fix.summary = fetches_data
                              ? fmt::format(
                                    "Copy to pinned memory with cudaMemcpyAsync and read it one step later, "
                                    "instead of waiting in {}; or do it every 50 steps",
                                    functions)
                              : fmt::format("Remove {}, or call {} every 50 steps", functions,
                                            functions.find(' ') == std::string::npos ? "it" : "them");
  } else if (fetches_data) {
    finding.fix.summary =
        "Keep the data on the GPU, or copy it to pinned memory without waiting and read it one step later";
    finding.fix.snippet =
        "host = torch.empty(y.shape, dtype=y.dtype, pin_memory=True)  # once; then host.copy_(y, "
        "non_blocking=True)";
  } else if (functions == kDeviceSynchronize) {
    finding.fix.summary =
        "Remove torch.cuda.synchronize(). To time layers, record CUDA events and read them every 50 steps";
    finding.fix.snippet = "begin = torch.cuda.Event(enable_timing=True); begin.record()";
  } else {
    finding.fix.summary =
        "Call .item(), .cpu() or print every 50 steps, and keep what they read on the GPU until then";
    finding.fix.snippet = "total += loss.detach()  # total.item() every 50 steps";
  }
  add_reads(finding, reads);
  if (frees) finding.fix.summary += "; allocate GPU memory once, because freeing it waits for the GPU too";
  finding.fix.location = location_of(input, places.front());
  for (size_t i = 1; i < places.size(); ++i)
    if (const std::string also = location_of(input, places[i]); !also.empty())
      finding.evidence.push_back(
          {"also waits at " + also, double(places[i].times) / double(input.rank.steps.size()), "a step"});
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (!input.streams || !input.device) return std::nullopt;
  const Places places = places_to_change(input);
  if (places.empty()) return std::nullopt;
  const double now = input.assumed_step_ms, best_ms = step_ms_without(input, places);
  if (now < best_ms * kLeastSpeedup) return std::nullopt;
  // A sync stall costs more than its own time: the launch queue is empty afterwards, so the GPU also idles
  // during whatever the host does next. And data that stay on the GPU are not copied: 1.77 times was achieved
  // where the copies alone took 39% of the step.
  const predict::StreamReplayInput uncopied = without(input, places, std::numeric_limits<double>::infinity());
  const double lost = std::max(input.rank.share(Category::Sync),
                               1 - std::min(best_ms, predict::replay(uncopied).step_ms) / now);

  Finding finding = make_finding(kSyncPerStep, input, lost);
  const double times = count(places, &SyncPlace::times), per_step = times / double(input.rank.steps.size());
  const std::string functions = functions_of(input, places);
  double waited_ns = 0;
  for (const SyncPlace& place : places) waited_ns += place.waited_ns;
  finding.title =
      fmt::format("Sync stalls: {} {} the host {} and {} {:.0f}% of each step", functions,
                  functions.find(' ') == std::string::npos ? "blocks" : "block", times_a_step(per_step),
                  functions.find(' ') == std::string::npos ? "costs" : "cost", 100 * lost);
  const char* const lost_by =
      fetch_data(places) ? "step time lost by waiting and copying the data" : "step time lost by waiting";
  finding.evidence = {{lost_by, 100 * lost, "% of the step"},
                      {"mean sync stall", waited_ns / times / 1e6, "ms"},
                      {"synchronization points at this line", per_step, "a step"}};
  add_reported_range(finding, input, time_of(input, {Category::Sync}));
  const SyncReads reads =
      speaks_torch(input.process) ? sync_reads(input, places) : SyncReads{.has_own = true};
  name_fix(finding, input, places, reads);
  settle_at_speed(
      finding, input, CopyKind::CopyD2H, [&](double speed) { return without(input, places, speed); }, lost);
  if (finding.ceiling_speedup)
    finding.ceiling_speedup = std::max(*finding.ceiling_speedup, ceiling_without(input, lost, uncopied));
  if (finding.prediction && places.size() > 1)
    finding.prediction->assumptions.emplace_back(
        "all named calls are changed: without one of them, the next waits for the same GPU work");
  allow_for_reads(finding, input, reads);
  if (time_layers(input, functions)) bound_with_launch_gaps(finding, input, uncopied);
  finding.is_alternative = fetch_data(places) && is_mostly_on_results(input, HostGaps(input));
  return finding;
}

}  // namespace

const Rule kSyncPerStep{
    "sync-per-step",
    "`.item()`, `.cpu()`, `print(loss)` or an explicit synchronization in each step "
    "drains the launch queue, and the GPU idles until the host has refilled it.",
    "The host is blocked in a synchronization call or a D2H copy, and the simulated "
    "replay without it is faster because the GPU idled afterwards. Calls that wait for "
    "the same GPU work (a copy and the synchronization behind it, two `.item()`, "
    "`cudaFree`) are one cause and are removed together. A synchronization right after "
    "an H2D copy belongs to the copy, one within `torch.save` to the checkpoint. Where "
    "`torch.cuda.synchronize()` times each layer, the gain is an upper bound: its hooks and "
    "clocks, which go with it, lie between the launches. Waits between the launches of a step "
    "rule a CUDA graph out, and come before `launch-bound`.",
    "Remove it, accumulate on the GPU, or call it every 50 steps, at the named line. What PyTorch itself "
    "reads "
    "has another remedy: `fused=True` in the optimizer for a GradScaler, a mask as a factor in place of "
    "`x[mask]`. In TensorFlow it is "
    "`.numpy()`, in JAX `float()`, `.item()` or `block_until_ready()`.",
    kThresholds,
    evaluate,
    attribute::CategorySet(attribute::Bottleneck::Host) |
        attribute::CategorySet{attribute::Category::CopyD2H, attribute::Category::CopyStaging}};

}  // namespace gpuwatch::advise
