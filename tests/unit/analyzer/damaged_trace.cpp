// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/analyzer/damaged_trace.h"

#include <algorithm>
#include <cstring>

#include "tests/unit/analyzer/trace_builder.h"

namespace gpuwatch::test {

using trace::OpClass;

namespace {

constexpr uint64_t kMs = 1'000'000;

// What random bits are unlikely to hit: lengths, offsets, counts, extremes.
uint32_t interesting(std::mt19937& random) {
  constexpr uint32_t kValues[] = {0,    1,    2,          3,          4,          8,
                                  24,   0x7f, 0x80,       0xff,       0x7fff,     0xffff,
                                  4095, 4096, 0x7fffffff, 0x80000000, 0xfffffffc, 0xffffffff};
  return kValues[random() % std::size(kValues)];
}

}  // namespace

std::vector<uint8_t> a_trace_with_everything() {
  TraceBuilder t;
  t.process({.ordinal = 0, .pid = 100, .tick_source = trace::TickSource::Tsc, .start_ticks = 500});
  t.process({.ordinal = 1, .pid = 101, .parent_pid = 100, .parent_ordinal = 0, .start_ticks = 600});
  for (uint64_t i = 0; i < 5; ++i) t.clock(0, i * 3 * kMs, i * kMs, 1'700'000 + i * kMs, 50 + i * kMs);
  const auto start = t.operation("iter", OpClass::LoaderStart),
             next = t.operation("next", OpClass::LoaderNext);
  const auto sent = t.operation("sent", OpClass::IndexSent),
             received = t.operation("received", OpClass::BatchReceived);
  const auto fetch = t.operation("fetch", OpClass::Fetch), read = t.operation("read", OpClass::Read);
  const auto launch = t.operation("launch", OpClass::Launch), range = t.operation("range", OpClass::Range);
  const auto optimizer = t.operation("step", OpClass::OptimizerStep);
  t.loader({.id = 900, .num_workers = 2});
  t.worker(900, 0, 101);
  t.worker(900, 1, 102);
  const auto kernel = t.kernel("gemm"), text = t.text("a text");
  t.stream(1, 0, 0, 7);
  t.table([&](auto& b) { return trace::CreateDeviceInfo(b, 0, 0, text, 9, 0, 132, 1, 1, 1); });
  t.table([&](auto& b) { return trace::CreateModule(b, 0, 1, 2, text); });
  t.table([&](auto& b) { return trace::CreateThreadName(b, 0, 1, text); });
  t.table([&](auto& b) { return trace::CreateLoss(b, 0, 1, text, 4); });
  t.table([&](auto& b) { return trace::CreateSource(b, 0, text, text); });
  t.table([&](auto& b) { return trace::CreateFact(b, 0, text, text); });
  t.table([&](auto& b) { return trace::CreateSample(b, 0, 1000, 1, 2, 3, 4, 5, 6, 7, 8, 9); });
  t.table([&](auto& b) { return trace::CreateProcessEnd(b, 0, trace::EndReason::Exit, 0, 9000); });
  Slots consumer, worker, activity;
  consumer.host(start, 1000, 2000, 900, 0);
  for (uint32_t i = 0; i < 30; ++i) {
    const uint64_t at = 10'000 * (i + 1);
    consumer.host(sent, at, at, 900, i, trace::CallDetail(0, 0, i % 2, 0, 0, 0));
    worker.host(read, at + 20, at + 30, 3, 0, trace::IoDetail(4096, 7, text, 0));
    worker.host(fetch, at + 10, at + 900, 0, i, trace::CpuDetail(1, 2, 3, 4));
    consumer.host(received, at + 1000, at + 1000, 900, i);
    consumer.host(next, at + 5, at + 1100, 900, i);
    consumer.host(launch, at + 2000, at + 2010, i + 1, 0, trace::CallDetail(0, 99, 7, 255, 0, 0));
    consumer.host(range, at + 2000, at + 2020, 0, text);
    activity.device(trace::RecordKind::Kernel, 1, 50 + at, 60 + at, i + 1, kernel);
    activity.device(trace::RecordKind::CopyH2D, 1, 70 + at, 80 + at, 0, 4096);
    consumer.host(optimizer, at + 3000, at + 3100, 1);
  }
  t.thread(0, 100, consumer);
  t.thread(0, 110, activity);
  t.thread(1, 101, worker);
  return t.bytes();
}

void mutate(std::vector<uint8_t>& bytes, std::mt19937& random) {
  const size_t edits = 1 + random() % 8;
  for (size_t i = 0; i < edits && bytes.size() > 256; ++i) {
    const bool in_header = random() % 16 == 0;
    const size_t at = random() % (in_header ? 128 : bytes.size() - 8);
    const uint32_t value = interesting(random);
    switch (random() % 6) {
      case 0:
        bytes[at] ^= static_cast<uint8_t>(1u << random() % 8);
        break;
      case 1:
        std::memcpy(&bytes[at / 4 * 4], &value, 4);
        break;
      case 2:
        std::memcpy(&bytes[at / 2 * 2], &value, 2);
        break;
      case 3: {  // one part over another
        const size_t from = random() % bytes.size(), length = random() % 512;
        const size_t count = std::min({length, bytes.size() - from, bytes.size() - at});
        std::memmove(&bytes[at], &bytes[from], count);
        break;
      }
      case 4:
        if (random() % 8 == 0) bytes.resize(random() % bytes.size());
        break;
      default:
        bytes[at] = static_cast<uint8_t>(random());
        break;
    }
  }
}

}  // namespace gpuwatch::test
