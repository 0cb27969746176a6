// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/worker_parts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "analyzer/predict/hand_over.h"

namespace gpuwatch::predict {
namespace {

template <typename Number>
Number sum_of(const std::vector<Number>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), Number{});
}

struct Made {
  std::vector<size_t> of_worker;
  size_t taken = 0;
};

Made made_in(const model::LoaderEpoch& epoch, size_t workers) {
  Made made{std::vector<size_t>(workers), 0};
  for (const model::Batch& batch : epoch.batches) {
    if (!was_taken(batch)) continue;
    ++made.taken;
    if (was_fetched(batch) && batch.worker < workers) ++made.of_worker[batch.worker];
  }
  return made;
}

// As few equal parts as give each worker what it made.
std::vector<int> in_equal_parts(const std::vector<size_t>& made) {
  constexpr int kMostParts = 32;  // above, one more or less makes no difference
  constexpr double kNear = 0.1;   // of a part
  const double all = double(sum_of(made));
  std::vector<int> parts(made.size());
  for (int count = 1; count <= kMostParts; ++count) {
    double off = 0;
    for (size_t worker = 0; worker < made.size(); ++worker) {
      const double exact = double(made[worker]) / all * count;
      parts[worker] = made[worker] > 0 ? std::max(1, int(std::lround(exact))) : 0;
      off = std::max(off, std::abs(exact - parts[worker]));
    }
    if (off <= kNear) break;
  }
  return parts;
}

}  // namespace

// A DataLoader gives its workers turns, so that one that makes fewer batches than others had no more data.
// How much each had, epochs tell that were read to their end; that one makes none, all do. Not where a
// worker's trace was lost, and with it who made its batches.
std::vector<int> recorded_parts(const std::vector<const model::LoaderEpoch*>& epochs,
                                const LoaderReplayInput& recording) {
  constexpr size_t kTurns = 4;
  constexpr double kUneven = 1.1;  // made by one, against an equal share
  const size_t workers = size_t(std::max(recording.setting.workers, 0));
  std::vector<size_t> any(workers), whole(workers);
  for (size_t i = 0; i < epochs.size(); ++i) {
    const Made made = made_in(*epochs[i], workers);
    const size_t seen = sum_of(made.of_worker);
    if (2 * workers * (made.taken - seen) > made.taken) return {};  // half of a worker's share
    if (seen < kTurns * workers) continue;
    std::ranges::transform(any, made.of_worker, any.begin(), std::plus());
    if (recording.epochs[i].is_whole)
      std::ranges::transform(whole, made.of_worker, whole.begin(), std::plus());
  }
  const std::vector<size_t>& made = sum_of(whole) > 0 ? whole : any;
  const size_t all = sum_of(made);
  if (all == 0) return {};
  const bool is_uneven = recording.setting.in_order && &made == &whole &&
                         double(std::ranges::max(made) * workers) > kUneven * double(all);
  const bool has_idle = std::ranges::find(made, 0U) != made.end();
  return has_idle || is_uneven ? in_equal_parts(made) : std::vector<int>();
}

std::vector<int> parts_of_workers(const LoaderReplayInput& recording, const LoaderSetting& setting) {
  if (setting.is_split || setting.workers <= 0 || recording.parts.empty()) return {};
  std::vector<int> parts = recording.parts;
  if (setting.workers != recording.setting.workers) {
    const int all = sum_of(parts);
    parts.assign(size_t(setting.workers), all / setting.workers);
    for (int extra = 0; extra < all % setting.workers; ++extra) ++parts[size_t(extra)];
  }
  std::ranges::sort(parts, std::greater());
  std::erase(parts, 0);
  return parts;
}

int serving_workers(const LoaderReplayInput& recording, const LoaderSetting& setting) {
  const std::vector<int> parts = parts_of_workers(recording, setting);
  return parts.empty() ? setting.workers : int(parts.size());
}

double largest_share(const LoaderReplayInput& recording, const LoaderSetting& setting) {
  const std::vector<int> parts = parts_of_workers(recording, setting);
  if (parts.empty()) return setting.workers > 0 ? 1.0 / setting.workers : 1;
  return double(parts.front()) / sum_of(parts);
}

}  // namespace gpuwatch::predict
