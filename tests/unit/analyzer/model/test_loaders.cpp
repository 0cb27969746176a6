// SPDX-License-Identifier: Apache-2.0
// A small model of PyTorch's loader writes traces; the epochs that are rebuilt from them must be what it did.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "run_builder.h"

namespace gpuwatch::model {
namespace {

using test::kMs;
using test::Slots;
using test::TraceBuilder;
using trace::OpClass;

constexpr uint32_t kConsumerPid = 100;

struct Truth {
  uint32_t worker;
  TimeSpan fetch;
  Ns received, sent;
  TimeSpan next;
};

class LoadersTest : public test::RunTest {
 protected:
  LoadersTest() {
    start_ = trace_.operation("iter", OpClass::LoaderStart);
    next_ = trace_.operation("next", OpClass::LoaderNext);
    sent_ = trace_.operation("sent", OpClass::IndexSent);
    received_ = trace_.operation("received", OpClass::BatchReceived);
    fetch_ = trace_.operation("fetch", OpClass::Fetch);
    collate_ = trace_.operation("collate", OpClass::Collate);
    read_ = trace_.operation("read", OpClass::Read);
    sleep_ = trace_.operation("nanosleep", OpClass::Sleep);
    worker_start_ = trace_.operation("worker", OpClass::WorkerStart);
    optimizer_ = trace_.operation("step", OpClass::OptimizerStep);
    pin_ = trace_.operation("pin", OpClass::PinBatch);
    trace_.process({.ordinal = 0, .pid = kConsumerPid, .start_ticks = 1});
  }

  void worker_process(uint32_t ordinal, uint32_t pid, uint64_t start) {
    trace_.process({.ordinal = ordinal,
                    .pid = pid,
                    .parent_pid = kConsumerPid,
                    .parent_ordinal = 0,
                    .start_ticks = start});
  }

  // One fetch of `length`: a read, a nested read, the transform, collate at the end.
  void record_fetch(Slots& slots, uint64_t begin, uint64_t length, uint32_t ordinal) {
    slots.host(read_, begin + 100, begin + 200).host(read_, begin, begin + 1000);
    slots.host(sleep_, begin + 1000, begin + 3000);
    slots.host(collate_, begin + length - 5000, begin + length, 0, trace::batch_size(2, 9 << 20));
    slots.host(fetch_, begin, begin + length, 0, ordinal, trace::CpuDetail(length / 2, 300, 0, 1));
  }

  // One epoch of `batches` over workers with prefetch 2, in order. Worker w takes (w + 1) ms for a
  // batch, batch 4 takes 20 ms; the consumer computes for 2 ms. Continues at `clock` and appends to
  // the given records.
  std::vector<Truth> epoch(uint64_t& clock, uint32_t loader, uint32_t batches, std::vector<Slots>& workers,
                           Slots& consumer, std::vector<uint32_t>& ordinals) {
    const uint32_t count = static_cast<uint32_t>(workers.size());
    std::vector<Truth> truth(batches);
    std::vector<uint64_t> free_at(count, clock);
    const uint64_t began = clock;
    uint32_t next_index = 0;
    const auto send = [&] {
      if (next_index == batches) return;
      const uint32_t i = next_index++, w = i % count;
      consumer.host(sent_, clock, clock, loader, i, trace::CallDetail(0, 0, w, 255, 0, 0));
      const uint64_t length = i == 4 ? 20 * kMs : (w + 1) * kMs;
      const uint64_t begin = std::max(free_at[w], clock + 1000);
      free_at[w] = begin + length;
      record_fetch(workers[w], begin, length, ordinals[w]++);
      truth[i] = {
          w, {static_cast<Ns>(begin), static_cast<Ns>(begin + length)}, 0, static_cast<Ns>(clock), {}};
      clock += 10;
    };
    for (uint32_t i = 0; i < 2 * count; ++i) send();
    clock += 1000;
    consumer.host(start_, began, clock, loader, 0);
    for (uint32_t i = 0; i < batches; ++i) {
      const uint64_t begin = clock;
      clock = std::max(clock, static_cast<uint64_t>(truth[i].fetch.end) + 50'000);
      consumer.host(received_, clock, clock, loader, i);
      truth[i].received = static_cast<Ns>(clock);
      clock += 2000;
      send();
      clock += 3000;
      consumer.host(next_, begin, clock, loader, i, trace::CpuDetail(1, 1, 0, 0));
      truth[i].next = {static_cast<Ns>(begin), static_cast<Ns>(clock)};
      clock += 2 * kMs;
      consumer.host(optimizer_, clock - 1000, clock, 1);
    }
    consumer.host(next_, clock, clock + 500, loader, batches, trace::kFailed);
    clock += 1000;
    return truth;
  }

  void expect(const Process& process, size_t epoch_index, const std::vector<Truth>& truth) {
    ASSERT_GT(process.epochs.size(), epoch_index);
    const auto& epoch = process.epochs[epoch_index];
    ASSERT_EQ(epoch.batches.size(), truth.size());
    for (uint32_t i = 0; i < truth.size(); ++i) {
      SCOPED_TRACE(i);
      const auto& batch = epoch.batches[i];
      EXPECT_EQ(batch.index, i);
      ASSERT_LT(batch.worker, epoch.workers.size());
      EXPECT_EQ(epoch.workers[batch.worker].index, truth[i].worker);
      EXPECT_EQ(batch.fetch.begin, truth[i].fetch.begin);
      EXPECT_EQ(batch.fetch.end, truth[i].fetch.end);
      EXPECT_EQ(batch.sent, truth[i].sent);
      EXPECT_EQ(batch.received, truth[i].received);
      EXPECT_EQ(batch.next.begin, truth[i].next.begin);
      EXPECT_EQ(batch.next.end, truth[i].next.end);
      EXPECT_EQ(batch.collate_ns, 5000);
      EXPECT_EQ(batch.tensors, 2u);
      EXPECT_EQ(batch.bytes, 9u << 20);
      EXPECT_EQ(batch.fetch_blocked_ns, 1000) << "nested reads count once, sleeping is no I/O";
      EXPECT_EQ(batch.fetch_cpu_ns, truth[i].fetch.length() / 2);
      EXPECT_EQ(batch.fetch_run_delay_ns, 300);
    }
  }

  uint16_t start_, next_, sent_, received_, fetch_, collate_, read_, sleep_, worker_start_, optimizer_, pin_;
};

TEST_F(LoadersTest, ThreeWorkersFourPassesEachWithNewProcesses) {
  trace_.loader({.id = 900, .num_workers = 3});
  uint64_t clock = 10 * kMs;
  Slots consumer;
  std::vector<std::vector<Truth>> truth;
  uint32_t ordinal = 1;
  for (int p = 0; p < 4; ++p) {
    std::vector<Slots> workers(3);
    std::vector<uint32_t> ordinals(3, 0);
    const uint64_t began = clock;
    for (uint32_t w = 0; w < 3; ++w) {
      worker_process(ordinal + w, 200 + ordinal + w, clock + 10);
      trace_.worker(900, w, 200 + ordinal + w);
      workers[w].host(worker_start_, clock + 500, clock + 500, 900, w);
    }
    truth.push_back(epoch(clock, 900, 20, workers, consumer, ordinals));
    for (uint32_t w = 0; w < 3; ++w) trace_.thread(ordinal + w, 200 + ordinal + w, workers[w]);
    ordinal += 3;
    EXPECT_GT(clock, began);
  }
  trace_.thread(0, kConsumerPid, consumer);
  const auto run = build(trace_);
  const auto& process = run.processes[0];
  ASSERT_EQ(process.epochs.size(), 4u);
  for (size_t p = 0; p < 4; ++p) {
    SCOPED_TRACE(p);
    expect(process, p, truth[p]);
    EXPECT_EQ(process.epochs[p].workers[1].pid, 200 + 3 * p + 2);
    EXPECT_GT(process.epochs[p].workers[1].start, process.epochs[p].start.begin);
  }
  EXPECT_EQ(process.loaders[0].thread, 0u);
  for (size_t i = 1; i < run.processes.size(); ++i) {
    EXPECT_EQ(run.processes[i].worker_of, 0u);
    EXPECT_FALSE(run.processes[i].is_rank());
  }
  EXPECT_TRUE(process.is_rank());
}

TEST_F(LoadersTest, PersistentWorkersServeSeveralEpochs) {
  trace_.loader({.id = 900, .num_workers = 2});
  std::vector<Slots> workers(2);
  std::vector<uint32_t> ordinals(2, 0);
  for (uint32_t w = 0; w < 2; ++w) {
    worker_process(1 + w, 201 + w, 5);
    trace_.worker(900, w, 201 + w);
  }
  uint64_t clock = 10 * kMs;
  Slots consumer;
  std::vector<std::vector<Truth>> truth;
  for (int p = 0; p < 3; ++p) {
    std::fill(ordinals.begin(), ordinals.end(), 0);
    truth.push_back(epoch(clock, 900, 7, workers, consumer, ordinals));
  }
  trace_.thread(0, kConsumerPid, consumer);
  for (uint32_t w = 0; w < 2; ++w) trace_.thread(1 + w, 201 + w, workers[w]);
  const auto run = build(trace_);
  for (size_t p = 0; p < 3; ++p) expect(run.processes[0], p, truth[p]);
}

TEST_F(LoadersTest, APassThatWasLeftEarlyDoesNotShiftTheNextOne) {
  trace_.loader({.id = 900, .num_workers = 1});
  worker_process(1, 201, 5);
  trace_.worker(900, 0, 201);
  Slots consumer, worker;
  const auto send = [&](uint64_t at, uint32_t i) {
    consumer.host(sent_, at, at, 900, i, trace::CallDetail(0, 0, 0, 255, 0, 0));
  };
  // Epoch one: three indices out, one batch taken, then `break`. The worker works all three off.
  consumer.host(start_, 1 * kMs, 2 * kMs, 900, 0);
  send(1 * kMs + 1, 0), send(1 * kMs + 2, 1), send(9 * kMs, 2);
  record_fetch(worker, 3 * kMs, 4 * kMs, 0);
  consumer.host(next_, 2 * kMs, 9 * kMs, 900, 0);
  record_fetch(worker, 7 * kMs, 4 * kMs, 1);
  record_fetch(worker, 11 * kMs, 4 * kMs, 2);
  // Epoch two resets the iterator, which waits for the worker.
  consumer.host(start_, 12 * kMs, 17 * kMs, 900, 1);
  send(16 * kMs, 0), send(16 * kMs + 1, 1);
  record_fetch(worker, 18 * kMs, 4 * kMs, 0);
  record_fetch(worker, 22 * kMs, 4 * kMs, 1);
  consumer.host(next_, 17 * kMs, 23 * kMs, 900, 0);
  trace_.thread(0, kConsumerPid, consumer);
  trace_.thread(1, 201, worker);
  const auto run = build(trace_);
  const auto& epochs = run.processes[0].epochs;
  ASSERT_EQ(epochs.size(), 2u);
  EXPECT_EQ(epochs[0].batches.at(2).fetch.begin, static_cast<Ns>(11 * kMs));
  EXPECT_EQ(epochs[1].batches.at(0).fetch.begin, static_cast<Ns>(18 * kMs));
  EXPECT_EQ(epochs[1].batches.at(1).fetch.begin, static_cast<Ns>(22 * kMs));
}

TEST_F(LoadersTest, ABatchIsPinnedForThePassThatAskedForIt) {
  trace_.loader({.id = 900, .num_workers = 1});
  Slots consumer, pinning;
  const auto epoch = [&](uint64_t at, uint32_t number) {
    consumer.host(start_, at, at + 10, 900, number);
    for (uint32_t i = 0; i < 2; ++i) {
      consumer.host(sent_, at + i, at + i, 900, i, trace::CallDetail(0, 0, 0, 255, 0, 0));
    }
    consumer.host(next_, at + 20, at + 9 * kMs, 900, 0);
  };
  pinning.host(pin_, 2 * kMs, 3 * kMs, 900, 0).host(pin_, 12 * kMs, 13 * kMs, 900, 1);
  pinning.host(pin_, 22 * kMs, 23 * kMs, 900, 0).host(pin_, 24 * kMs, 25 * kMs, 900, 7);
  pinning.host(pin_, 26 * kMs, 27 * kMs, 901, 1).host(pin_, 28 * kMs, 29 * kMs, 900, 1, trace::kFailed);
  epoch(1 * kMs, 0);
  epoch(20 * kMs, 1);
  trace_.thread(0, kConsumerPid, consumer);
  trace_.thread(0, kConsumerPid + 1, pinning);
  const auto epochs = build(trace_).processes[0].epochs;
  ASSERT_EQ(epochs.size(), 2u);
  EXPECT_EQ(epochs[0].batches.at(0).pinned.begin, static_cast<Ns>(2 * kMs));
  EXPECT_EQ(epochs[0].batches.at(1).pinned.end, static_cast<Ns>(13 * kMs)) << "taken after the break";
  EXPECT_EQ(epochs[1].batches.at(0).pinned.begin, static_cast<Ns>(22 * kMs));
  EXPECT_EQ(epochs[1].batches.at(1).pinned.length(), 0) << "it failed";
}

TEST_F(LoadersTest, ALostFetchRecordLeavesAHoleAndNoShift) {
  trace_.loader({.id = 900, .num_workers = 1});
  worker_process(1, 201, 5);
  trace_.worker(900, 0, 201);
  Slots consumer, worker;
  consumer.host(start_, 1 * kMs, 2 * kMs, 900, 0);
  for (uint32_t i = 0; i < 4; ++i) {
    consumer.host(sent_, kMs + i, kMs + i, 900, i, trace::CallDetail(0, 0, 0, 255, 0, 0));
    if (i != 1) record_fetch(worker, (3 + 4 * i) * kMs, 4 * kMs, i);
  }
  trace_.thread(0, kConsumerPid, consumer);
  trace_.thread(1, 201, worker);
  const auto batches = build(trace_).processes[0].epochs.at(0).batches;
  EXPECT_EQ(batches[0].fetch.begin, static_cast<Ns>(3 * kMs));
  EXPECT_EQ(batches[1].fetch.begin, 0);
  EXPECT_EQ(batches[2].fetch.begin, static_cast<Ns>(11 * kMs));
  EXPECT_EQ(batches[3].fetch.begin, static_cast<Ns>(15 * kMs));
}

TEST_F(LoadersTest, AnExhaustedIterableLeavesNoBatch) {
  trace_.loader({.id = 900, .num_workers = 1});
  worker_process(1, 201, 5);
  trace_.worker(900, 0, 201);
  Slots consumer, worker;
  for (uint32_t i = 0; i < 3; ++i) {
    consumer.host(sent_, kMs + i, kMs + i, 900, i, trace::CallDetail(0, 0, 0, 255, 0, 0));
  }
  record_fetch(worker, 2 * kMs, kMs, 0);
  record_fetch(worker, 4 * kMs, kMs, 1);
  worker.host(fetch_, 6 * kMs, 6 * kMs + 10, 0, 2, trace::kFailed);
  consumer.host(received_, 7 * kMs, 7 * kMs, 900, 2, trace::kFailed);
  trace_.thread(0, kConsumerPid, consumer);
  trace_.thread(1, 201, worker);
  const auto batches = build(trace_).processes[0].epochs.at(0).batches;
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[1].fetch.begin, static_cast<Ns>(4 * kMs));
}

TEST_F(LoadersTest, WithoutWorkersTheConsumerFetches) {
  trace_.loader({.id = 900, .num_workers = 0});
  Slots consumer;
  consumer.host(start_, 1 * kMs, 1 * kMs + 500, 900, 0);
  for (uint32_t i = 0; i < 5; ++i) {
    const uint64_t begin = (10 + 20 * i) * kMs;
    record_fetch(consumer, begin + 1000, 8 * kMs, i);
    consumer.host(next_, begin, begin + 9 * kMs, 900, i);
  }
  trace_.thread(0, kConsumerPid, consumer);
  const auto run = build(trace_);
  const auto& epoch = run.processes[0].epochs.at(0);
  ASSERT_EQ(epoch.batches.size(), 5u);
  EXPECT_TRUE(epoch.workers.empty());
  for (uint32_t i = 0; i < 5; ++i) {
    EXPECT_EQ(epoch.batches[i].worker, kNone);
    EXPECT_EQ(epoch.batches[i].fetch.begin, static_cast<Ns>((10 + 20 * i) * kMs + 1000));
    EXPECT_EQ(epoch.batches[i].fetch.length(), static_cast<Ns>(8 * kMs));
    EXPECT_EQ(epoch.batches[i].fetch_blocked_ns, 1000);
    EXPECT_EQ(epoch.batches[i].sent, 0);
  }
}

TEST_F(LoadersTest, ASpawnedWorkerIsFoundInItsOwnFile) {
  trace_.loader({.id = 900, .num_workers = 1});
  trace_.worker(900, 0, 777);
  Slots consumer;
  consumer.host(start_, 1 * kMs, 2 * kMs, 900, 0);
  consumer.host(sent_, kMs + 1, kMs + 1, 900, 0, trace::CallDetail(0, 0, 0, 255, 0, 0));
  consumer.host(next_, 2 * kMs, 9 * kMs, 900, 0);
  trace_.thread(0, kConsumerPid, consumer);
  TraceBuilder other;
  other.process({.pid = 777, .parent_pid = kConsumerPid, .start_ticks = kMs});
  const auto fetch = other.operation("fetch", OpClass::Fetch);
  other.thread(0, 777, Slots().host(fetch, 3 * kMs, 8 * kMs, 0, 0));
  const auto run = build(trace_, other);
  EXPECT_EQ(run.processes[0].epochs.at(0).batches.at(0).fetch.begin, static_cast<Ns>(3 * kMs));
  EXPECT_EQ(run.processes[1].parent, 0u);
  EXPECT_EQ(run.processes[1].worker_of, 0u);
}

TEST_F(LoadersTest, WithoutIndicesRoundRobinIsAssumed) {
  trace_.loader({.id = 900, .num_workers = 2});
  for (uint32_t w = 0; w < 2; ++w) {
    worker_process(1 + w, 201 + w, 5);
    trace_.worker(900, w, 201 + w);
  }
  Slots consumer;
  std::vector<Slots> workers(2);
  for (uint32_t i = 0; i < 6; ++i) {
    record_fetch(workers[i % 2], (10 + 10 * i) * kMs, 5 * kMs, i / 2);
    consumer.host(next_, (10 + 10 * i) * kMs, (16 + 10 * i) * kMs, 900, i);
  }
  trace_.thread(0, kConsumerPid, consumer);
  for (uint32_t w = 0; w < 2; ++w) trace_.thread(1 + w, 201 + w, workers[w]);
  const auto run = build(trace_);
  for (uint32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(run.processes[0].epochs.at(0).batches.at(i).fetch.begin, static_cast<Ns>((10 + 10 * i) * kMs));
  }
}

// Each is described by all calls within it: of a million that lie in each other a million million.
TEST_F(LoadersTest, OfFetchesInEachOtherOnlyTheOuterOnesAreDescribed) {
  trace_.loader({.id = 900, .num_workers = 0});
  Slots consumer;
  consumer.host(start_, 1 * kMs, 1 * kMs + 500, 900, 0);
  consumer.host(next_, 2 * kMs, 9 * kMs, 900, 0);
  for (uint32_t i = 0; i < 200; ++i) record_fetch(consumer, 2 * kMs + 1000 * (i + 1), 6 * kMs, 0);
  trace_.thread(0, kConsumerPid, consumer);
  const auto run = build(trace_);
  const auto& epoch = run.processes[0].epochs.at(0);
  EXPECT_EQ(epoch.batches.at(0).fetch.begin, static_cast<Ns>(2 * kMs + 4000));  // the fourth
}

TEST_F(LoadersTest, HostileIndicesCostNoMemory) {
  Slots consumer;
  for (uint32_t i = 0; i < 100; ++i) {
    consumer.host(sent_, kMs + i, kMs + i, i * 40'000'000, UINT32_MAX - i,
                  trace::CallDetail(0, 0, UINT32_MAX - i, 255, 0, 0));
    consumer.host(next_, kMs + i, kMs + i, 7, UINT32_MAX - i);
  }
  trace_.thread(0, kConsumerPid, consumer);
  const auto run = build(trace_);
  EXPECT_EQ(run.processes[0].epochs.size(), 101u);
}

}  // namespace
}  // namespace gpuwatch::model
