// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/queue_of_threads.h"

#include <algorithm>
#include <cmath>

#include "analyzer/advise/worker_bound.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;

bool may_hold_gil(const RuleInput& input) {
  constexpr double kMostOfIt = 0.5;
  const predict::BatchCost& cost = input.producers->loader.epochs.front().batches.front();
  return input.process.facts.contains("python") && cost.cpu_ns > kMostOfIt * cost.service_ns;
}

}  // namespace

bool makers_wait(const RuleInput& input) {
  constexpr double kMostOfIt = 0.5;
  const double waits = input.rank.share(Category::InputWait) + input.rank.share(Category::InputIo);
  return waits >= kMostOfIt * input.rank.share(attribute::Group::Input);
}

int threads_wanted(const RuleInput& input) {
  if (!input.producers || input.loader || may_hold_gil(input)) return 0;
  const predict::ProducerReplayInput& producers = *input.producers;
  if (producers.busy_share < kBusyProducers && !makers_wait(input)) return 0;
  const predict::LoaderSetting& setting = producers.loader.setting;
  const double needed = std::ceil(producers.service_ms / std::max(input.input_floor_ms(), 1e-3));
  const int wanted = std::min(int(needed), worker_bound(input, producers.loader, setting).most);
  return wanted > setting.workers ? wanted : 0;
}

bool is_queue_too_short(const RuleInput& input) {
  if (!input.producers || input.loader || input.own_data) return false;
  const predict::ProducerReplayInput& producers = *input.producers;
  // All of them together: of threads that hand on what another one makes, the slowest decides.
  return producers.service_ms > 0 && producers.busy_share < kBusyProducers &&
         producers.service_ms < input.input_floor_ms();
}

}  // namespace gpuwatch::advise
