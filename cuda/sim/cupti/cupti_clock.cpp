// SPDX-License-Identifier: Apache-2.0
#include "cupti_clock.h"

#include <atomic>
#include <ctime>

#include "core/config.h"

namespace gpuwatch::sim {

namespace {

struct Origin {
  Ns monotonic_ns;
  Ns realtime_ns;
};

// Tightest of a few bracketed pairs: a preemption between two clock reads would become a constant error.
Origin sample() {
  Origin best{};
  Ns best_width_ns = INT64_MAX;
  for (int i = 0; i < 8; ++i) {
    const Ns before = now_ns();
    timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    const Ns after = now_ns();
    if (after - before >= best_width_ns) continue;
    best_width_ns = after - before;
    best = {before + (after - before) / 2, t.tv_sec * 1'000'000'000LL + t.tv_nsec};
  }
  return best;
}

const Origin& origin() {
  static const Origin instance = sample();
  return instance;
}

std::atomic<uint64_t (*)()> g_client_clock{nullptr};
std::atomic<uint64_t> g_client_origin{0};
std::atomic<Ns> g_client_origin_ns{0};

// The clock starts when the library is loaded, not when somebody first asks.
[[gnu::constructor]] void start_clock() {
  origin();
}

}  // namespace

uint64_t cupti_time(Ns monotonic_ns) {
  if (const auto clock = g_client_clock.load(std::memory_order_acquire)) {
    // A line through two samples of the client's clock, as the real library converts device times.
    const uint64_t client_now = clock();
    const Ns now = now_ns();
    const double rate =
        static_cast<double>(client_now - g_client_origin) / static_cast<double>(now - g_client_origin_ns + 1);
    return client_now +
           static_cast<uint64_t>(static_cast<int64_t>(rate * static_cast<double>(monotonic_ns - now)));
  }
  const Config& c = config();
  const Ns since = monotonic_ns - origin().monotonic_ns;
  const Ns drift = static_cast<Ns>(static_cast<double>(since) * c.cupti_drift_ppm * 1e-6);
  const Ns step = c.cupti_step_ns != 0 && since >= c.cupti_step_at_ns ? static_cast<Ns>(c.cupti_step_ns) : 0;
  return static_cast<uint64_t>(origin().realtime_ns + since + drift + c.cupti_skew_ns + step);
}

void use_client_clock(uint64_t (*clock)()) {
  if (clock) {
    g_client_origin = clock();
    g_client_origin_ns = now_ns();
  }
  g_client_clock.store(clock, std::memory_order_release);
}

}  // namespace gpuwatch::sim
