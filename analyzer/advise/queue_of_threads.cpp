// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/queue_of_threads.h"

#include <algorithm>

namespace gpuwatch::advise {

bool is_queue_too_short(const RuleInput& input) {
  if (!input.producers || input.loader || input.own_data) return false;
  const predict::ProducerReplayInput& producers = *input.producers;
  const double threads = double(std::max<size_t>(1, producers.threads.size()));
  return producers.service_ms > 0 && producers.busy_share < kBusyProducers &&
         producers.service_ms / threads < input.input_floor_ms();
}

}  // namespace gpuwatch::advise
