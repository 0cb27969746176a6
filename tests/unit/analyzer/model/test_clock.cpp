// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>

#include "analyzer/model/clock.h"
#include "run_builder.h"

namespace gpuwatch::model {
namespace {

constexpr Ns kSecond = 1'000'000'000;
constexpr int64_t kTicksPerUs = 2995;  // a 2.995 GHz TSC

uint64_t ticks_at(Ns ns) {
  return static_cast<uint64_t>(77'000'000'000'000 + ns * kTicksPerUs / 1000);
}

TEST(LinearClock, WithoutPointsIsMonotonicItself) {
  const LinearClock clock;
  EXPECT_EQ(clock.map(123), 123);
  EXPECT_LE(clock.map(UINT64_MAX), kFarNs);
}

TEST(LinearClock, IsExactAtKnotsAndBetweenThem) {
  std::vector<ClockPoint> points;
  for (Ns t = 0; t <= 100 * kSecond; t += kSecond) points.push_back({ticks_at(t), t, 20});
  const LinearClock clock(points);
  for (const auto& point : points) EXPECT_NEAR(clock.map(point.from), point.to, 1);
  for (Ns t = 0; t < 100 * kSecond; t += 12'345'677) ASSERT_NEAR(clock.map(ticks_at(t)), t, 2);
  EXPECT_EQ(clock.contradictions(), 0u);
  EXPECT_LE(clock.residual_ns(), 22);
}

TEST(LinearClock, ExtrapolatesWithTheNearestKnownRate) {
  const LinearClock clock(
      {{ticks_at(10 * kSecond), 10 * kSecond, 20}, {ticks_at(20 * kSecond), 20 * kSecond, 20}});
  EXPECT_NEAR(clock.map(ticks_at(0)), 0, 5);
  EXPECT_NEAR(clock.map(ticks_at(3600 * kSecond)), 3600 * kSecond, 400);
}

TEST(LinearClock, FollowsAChangeOfRate) {
  // NTP slews CLOCK_MONOTONIC by 500 ppm from second 50 on.
  const auto host = [](Ns t) { return t < 50 * kSecond ? t : t + (t - 50 * kSecond) / 2000; };
  std::vector<ClockPoint> points;
  for (Ns t = 0; t <= 100 * kSecond; t += kSecond) points.push_back({ticks_at(t), host(t), 20});
  const LinearClock clock(points);
  for (Ns t = 0; t < 100 * kSecond; t += 7'654'321) ASSERT_NEAR(clock.map(ticks_at(t)), host(t), 5);
}

TEST(LinearClock, NoiseOfCrowdedSamplesDoesNotBendTheRate) {
  std::mt19937_64 random(3);
  std::vector<ClockPoint> points;
  for (int burst = 0; burst < 10; ++burst) {
    for (int i = 0; i < 50; ++i) {  // fifty processes sample within 50 us, each within 300 ns
      const Ns t = burst * kSecond + i * 1000;
      points.push_back({ticks_at(t), t + static_cast<Ns>(random() % 600) - 300, 300});
    }
  }
  const LinearClock clock(points);
  EXPECT_EQ(clock.contradictions(), 0u);
  for (Ns t = -kSecond; t < 12 * kSecond; t += 9'999'991) ASSERT_NEAR(clock.map(ticks_at(t)), t, 2000);
}

TEST(LinearClock, NeverRunsBackwards) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<ClockPoint> points(random() % 20);
    for (auto& p : points)
      p = {random() >> (random() % 64), static_cast<Ns>(random() >> (random() % 64)), 10};
    const LinearClock clock(points);
    std::vector<uint64_t> times(100);
    for (auto& t : times) t = random() >> (random() % 64);
    for (const auto& p : points) times.insert(times.end(), {p.from, p.from - 1, p.from + 1});
    std::sort(times.begin(), times.end());
    LinearClock::Cursor cursor;
    Ns before = -kFarNs;
    for (const uint64_t t : times) {
      const Ns ns = clock.map(t, cursor);
      ASSERT_GE(ns, before);
      ASSERT_LE(std::abs(ns), kFarNs);
      ASSERT_EQ(ns, clock.map(t)) << "the cursor must not change the result";
      before = ns;
    }
  }
}

TEST(LinearClock, CountsTimeGoingBackwards) {
  const LinearClock clock({{1000, 5 * kSecond, 10}, {2000, 3 * kSecond, 10}, {3000, 6 * kSecond, 10}});
  EXPECT_EQ(clock.contradictions(), 1u);
}

TEST(DeviceClock, InterpolatesAndReportsItsResidual) {
  const Ns realtime = 1'700'000'000 * kSecond;
  std::vector<ClockPoint> points;
  for (Ns t = 0; t <= 10 * kSecond; t += kSecond) {
    points.push_back({static_cast<uint64_t>(realtime + t + (t == 5 * kSecond ? 700 : 0)), t, 50});
  }
  const DeviceClock clock(points);
  DeviceClock::Cursor cursor;
  EXPECT_NEAR(clock.map(static_cast<uint64_t>(realtime + 2'500'000'000), cursor), 2'500'000'000, 2);
  EXPECT_NEAR(clock.residual_ns(), 700, 5);
  EXPECT_EQ(clock.steps(), 0u);
}

TEST(DeviceClock, SurvivesAStepInEitherDirection) {
  const Ns realtime = 1'700'000'000 * kSecond;
  for (const Ns step : {3600 * kSecond, -3600 * kSecond}) {
    std::vector<ClockPoint> points;
    const auto device = [&](Ns t) {
      return static_cast<uint64_t>(realtime + t + (t >= 5'300'000'000 ? step : 0));
    };
    for (Ns t = 0; t <= 10 * kSecond; t += kSecond) points.push_back({device(t), t, 50});
    const DeviceClock clock(points);
    EXPECT_EQ(clock.steps(), 1u);
    EXPECT_LE(clock.residual_ns(), 60);
    DeviceClock::Cursor cursor;
    for (const Ns t : {Ns{1}, 2 * kSecond + 5, 4'900'000'000, 5'100'000'000, 5'400'000'000, 8'123'456'789}) {
      EXPECT_NEAR(clock.map(device(t), cursor), t, 5) << "step " << step;
    }
  }
}

TEST(DeviceClock, ReadsATimeThatCameTwiceByWhatLaunchedIt) {
  const Ns realtime = 1'700'000'000 * kSecond;
  const auto device = [&](Ns t) {
    return static_cast<uint64_t>(realtime + t - (t >= 5'300'000'000 ? 2 * kSecond : 0));
  };
  std::vector<ClockPoint> points;
  for (Ns t = 0; t <= 10 * kSecond; t += kSecond / 2) points.push_back({device(t), t, 50});
  const DeviceClock clock(points);
  ASSERT_EQ(clock.steps(), 1u);
  ASSERT_EQ(device(4'000'000'000), device(6'000'000'000));
  for (Ns t = 1; t < 10 * kSecond; t += 77'777'777) {
    // Launched up to a second before it began.
    ASSERT_NEAR(clock.map_after(device(t), t - 900'000'000), t, 5) << t;
  }
}

TEST(DeviceClock, KnowsAnotherToolsCounter) {
  const Ns realtime = 1'700'000'000 * kSecond;
  // The counter is registered at second 4, in 2.995 units a nanosecond.
  const auto device = [&](Ns t) {
    return t < 4 * kSecond ? static_cast<uint64_t>(realtime + t) : ticks_at(t);
  };
  std::vector<ClockPoint> points;
  for (Ns t = 0; t <= 10 * kSecond; t += kSecond / 2) points.push_back({device(t), t, 50});
  const DeviceClock clock(points);
  EXPECT_EQ(clock.steps(), 1u);
  EXPECT_NEAR(clock.units_per_ns(), 2.995, 1e-4);
  DeviceClock::Cursor cursor;
  for (Ns t = 0; t < 10 * kSecond; t += 77'777'777) {
    if (t > 3'500'000'000 && t < 4 * kSecond) continue;  // between two samples, before the change
    ASSERT_NEAR(clock.map(device(t), cursor), t, 5) << t;
  }
}

// Each operation is looked for in all epochs.
TEST(DeviceClock, HasFewEpochsWhateverItsSamplesSay) {
  std::vector<ClockPoint> points;
  std::mt19937 random(3);
  for (Ns i = 0; i < 5000; ++i) points.push_back({uint64_t{random()} * 1000, i * kSecond, 10});
  const DeviceClock clock(points);
  EXPECT_GT(clock.steps(), 4000u);
  EXPECT_LE(clock.epochs(), 65u);
}

TEST(DeviceClock, HostileSamplesDoNoHarm) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<ClockPoint> points(random() % 12);
    for (auto& p : points)
      p = {random() >> (random() % 64), static_cast<Ns>(random() >> (random() % 64)) % kFarNs, 10};
    const DeviceClock clock(points);
    DeviceClock::Cursor cursor;
    for (int i = 0; i < 20; ++i) {
      const uint64_t t = random() >> (random() % 64);
      ASSERT_LE(std::abs(clock.map(t, cursor)), kFarNs);
      ASSERT_LE(std::abs(clock.map_after(t, static_cast<Ns>(random() % kSecond))), kFarNs);
    }
  }
}

class ClockRunTest : public test::RunTest {};

TEST_F(ClockRunTest, ProcessesOfAHostShareOneClock) {
  test::TraceBuilder a, b;
  const auto process = [](uint32_t pid, const char* host) {
    return test::ProcessOptions{
        .pid = pid, .tick_source = trace::TickSource::Tsc, .start_ticks = ticks_at(kSecond), .host = host};
  };
  a.process(process(1, "one"));
  b.process(process(2, "one"));
  a.clock(0, ticks_at(kSecond), kSecond);
  a.clock(0, ticks_at(9 * kSecond), 9 * kSecond);
  // b was killed before its second sample: alone, it could not know the rate.
  b.clock(0, ticks_at(2 * kSecond), 2 * kSecond);
  const auto op = b.operation("read", trace::OpClass::Read);
  b.thread(0, 2, test::Slots().host(op, ticks_at(4 * kSecond), ticks_at(5 * kSecond)));
  const auto run = build(a, b);
  EXPECT_TRUE(run.damage.empty());
  const auto& call = run.processes.at(1).threads.at(0).calls.at(0);
  EXPECT_NEAR(call.begin, 4 * kSecond, 2);
  EXPECT_NEAR(call.end, 5 * kSecond, 2);
  EXPECT_NEAR(run.processes[0].start, kSecond, 2);
}

TEST_F(ClockRunTest, TwoMachinesOfOneNameKeepTheirOwnClocks) {
  test::TraceBuilder a, b;
  for (auto [trace, pid, shift] : {std::tuple(&a, 1u, Ns{0}), std::tuple(&b, 2u, 400 * kSecond)}) {
    trace->process({.pid = pid, .tick_source = trace::TickSource::Tsc, .start_ticks = ticks_at(0)});
    for (Ns t = 0; t < 5 * kSecond; t += kSecond) {
      trace->clock(0, ticks_at(t), static_cast<uint64_t>(500 * kSecond + t - shift));
    }
  }
  const auto run = build(a, b);
  EXPECT_NEAR(run.processes[0].start, 500 * kSecond, 2);
  EXPECT_NEAR(run.processes[1].start, 100 * kSecond, 2);
}

TEST_F(ClockRunTest, ASingleSampleTakesItsRateFromTheStart) {
  test::TraceBuilder trace;
  const Ns realtime = 1'700'000'000 * kSecond;
  trace.process({.tick_source = trace::TickSource::Tsc,
                 .start_ticks = ticks_at(kSecond),
                 .start_realtime_ns = static_cast<uint64_t>(realtime + kSecond)});
  trace.clock(0, ticks_at(11 * kSecond), 11 * kSecond, static_cast<uint64_t>(realtime + 11 * kSecond));
  const auto op = trace.operation("read", trace::OpClass::Read);
  trace.thread(0, 2, test::Slots().host(op, ticks_at(6 * kSecond), ticks_at(7 * kSecond)));
  const auto run = build(trace);
  EXPECT_TRUE(run.damage.empty());
  EXPECT_NEAR(run.processes[0].threads[0].calls[0].begin, 6 * kSecond, 1000);
}

TEST_F(ClockRunTest, SaysSoWhenAClockIsNotKnown) {
  test::TraceBuilder trace;
  trace.process({.tick_source = trace::TickSource::Tsc, .start_ticks = 0});
  const auto run = build(trace);
  ASSERT_EQ(run.damage.size(), 1u);
  EXPECT_NE(run.damage[0].find("never"), std::string::npos);
}

}  // namespace
}  // namespace gpuwatch::model
