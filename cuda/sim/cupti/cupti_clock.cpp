// SPDX-License-Identifier: Apache-2.0
#include "cupti_clock.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <ctime>
#include <thread>

#include "core/config.h"

namespace gpuwatch::sim {

namespace {

struct Origin {
  Ns monotonic_ns;
  Ns reading_ns;
};

// Tightest of a few bracketed pairs: a preemption between two clock reads would become a constant error.
template <class Clock>
Origin sample(Clock clock) {
  Origin best{};
  Ns best_width_ns = INT64_MAX;
  for (int i = 0; i < 8; ++i) {
    const Ns before = now_ns();
    const Ns reading = static_cast<Ns>(clock());
    const Ns after = now_ns();
    if (after - before >= best_width_ns) continue;
    best_width_ns = after - before;
    best = {before + (after - before) / 2, reading};
  }
  return best;
}

Ns realtime_ns() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

const Origin& origin() {
  static const Origin instance = sample(realtime_ns);
  return instance;
}

// A client's clock as a line, so that durations are exact: its rate is taken for a whole
// number of thousandths.
struct ClientClock {
  Origin origin;
  Ns thousandths;
};
std::atomic<const ClientClock*> g_client{nullptr};

// The clock starts when the library is loaded, not when somebody first asks.
[[gnu::constructor]] void start_clock() {
  origin();
}

}  // namespace

uint64_t cupti_time(Ns monotonic_ns) {
  if (const ClientClock* client = g_client.load(std::memory_order_acquire)) {
    const auto since = static_cast<__int128>(monotonic_ns - client->origin.monotonic_ns);
    return static_cast<uint64_t>(client->origin.reading_ns +
                                 static_cast<Ns>(since * client->thousandths / 1000));
  }
  const Config& c = config();
  const Ns since = monotonic_ns - origin().monotonic_ns;
  const Ns drift = static_cast<Ns>(static_cast<double>(since) * c.cupti_drift_ppm * 1e-6);
  const Ns step = c.cupti_step_ns != 0 && since >= c.cupti_step_at_ns ? static_cast<Ns>(c.cupti_step_ns) : 0;
  return static_cast<uint64_t>(origin().reading_ns + since + drift + c.cupti_skew_ns + step);
}

void use_client_clock(uint64_t (*clock)()) {
  const Origin first = sample(clock);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const Origin second = sample(clock);
  const double rate = static_cast<double>(second.reading_ns - first.reading_ns) /
                      static_cast<double>(second.monotonic_ns - first.monotonic_ns);
  // Leaked: another thread may be converting with the one before.
  g_client.store(new ClientClock{first, static_cast<Ns>(std::lround(1000 * rate))},
                 std::memory_order_release);
}

}  // namespace gpuwatch::sim
