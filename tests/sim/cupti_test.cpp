// SPDX-License-Identifier: Apache-2.0
// A CUPTI client, compiled against the vendor's header, on the CUPTI stand-in: what it is told must be what
// the ground truth says.
#include <cupti.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "device_program.h"
#include "truth_file.h"

namespace {

const FakeKernel kShort("cupti_50us");
const FakeKernel kLong("cupti_20ms");
const FakeKernel kTiny("cupti_100ns");

struct Collected {
  std::mutex mutex;
  std::map<CUpti_ActivityKind, std::vector<std::vector<uint8_t>>> records;
  std::atomic<bool> refuse{false};
} g_collected;

void request(uint8_t** buffer, size_t* size, size_t* max_records) {
  *size = g_collected.refuse ? 0 : 64 << 10;
  *buffer = g_collected.refuse ? nullptr : static_cast<uint8_t*>(std::aligned_alloc(8, *size));
  *max_records = 0;
}

size_t size_of(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return sizeof(CUpti_ActivitySynchronization2);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      return sizeof(CUpti_ActivityGraphTrace2);
    default:
      return sizeof(CUpti_ActivityAPI);
  }
}

void complete(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  std::lock_guard lock(g_collected.mutex);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(record);
    g_collected.records[record->kind].emplace_back(bytes, bytes + size_of(record->kind));
  }
  std::free(buffer);
}

template <class Record>
std::vector<Record> taken(CUpti_ActivityKind kind) {
  std::lock_guard lock(g_collected.mutex);
  std::vector<Record> result;
  for (const auto& bytes : g_collected.records[kind]) {
    Record record;
    std::memcpy(&record, bytes.data(), sizeof record);
    result.push_back(record);
  }
  return result;
}

// CUPTI's clock minus the ground truth's, from the default clock's definition: the tightest of many bracketed
// reads, because the thread may lose its core between two of them.
int64_t realtime_offset() {
  const auto ns = [](clockid_t clock) {
    timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
  };
  int64_t best_width = INT64_MAX, offset = 0;
  for (int i = 0; i < 100; ++i) {
    const int64_t before = ns(CLOCK_MONOTONIC);
    const int64_t realtime = ns(CLOCK_REALTIME);
    const int64_t width = ns(CLOCK_MONOTONIC) - before;
    if (width < best_width) {
      best_width = width;
      offset = realtime - before - width / 2;
    }
  }
  return offset;
}
constexpr int64_t kClockReadNs = 50'000;

class Cupti : public testing::Test {
 protected:
  void SetUp() override {
    std::lock_guard lock(g_collected.mutex);
    g_collected.records.clear();
    g_collected.refuse = false;
    ASSERT_EQ(CUPTI_SUCCESS, cuptiActivityRegisterCallbacks(request, complete));
  }
  void TearDown() override {
    for (CUpti_ActivityKind kind : kKinds) cuptiActivityDisable(kind);
    cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  }
  void enable(std::initializer_list<CUpti_ActivityKind> kinds) {
    for (CUpti_ActivityKind kind : kinds) ASSERT_EQ(CUPTI_SUCCESS, cuptiActivityEnable(kind));
  }
  static constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                                  CUPTI_ACTIVITY_KIND_MEMCPY,
                                                  CUPTI_ACTIVITY_KIND_MEMSET,
                                                  CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
                                                  CUPTI_ACTIVITY_KIND_RUNTIME,
                                                  CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                                  CUPTI_ACTIVITY_KIND_GRAPH_TRACE};
};

TEST_F(Cupti, KernelRecordsAreTheGroundTruth) {
  enable({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_RUNTIME});
  const size_t before = truth_lines("op", "kernel").size();
  TestStream stream;
  for (int i = 0; i < 500; ++i) ASSERT_CUDA(kShort.launch(stream, 3));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  ASSERT_EQ(CUPTI_SUCCESS, cuptiActivityFlushAll(0));

  const auto truth = truth_lines("op", "kernel");
  const auto records = taken<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  ASSERT_EQ(500u, truth.size() - before);
  ASSERT_EQ(500u, records.size());
  std::map<uint32_t, const TruthLine*> by_correlation;
  for (size_t i = before; i < truth.size(); ++i)
    by_correlation[static_cast<uint32_t>(truth[i].number("corr"))] = &truth[i];
  const int64_t offset =
      static_cast<int64_t>(records[0].start) - by_correlation[records[0].correlationId]->number("start");
  EXPECT_NEAR(static_cast<double>(offset), static_cast<double>(realtime_offset()), kClockReadNs);
  for (const auto& r : records) {
    const TruthLine* line = by_correlation[r.correlationId];
    ASSERT_NE(nullptr, line);
    EXPECT_EQ(line->number("start") + offset, static_cast<int64_t>(r.start));
    EXPECT_EQ(50'000u, r.end - r.start);
    EXPECT_EQ(line->number("stream"), r.streamId);
    EXPECT_EQ(line->word("name"), r.name);
    EXPECT_EQ(3, r.gridX);
  }
}

TEST_F(Cupti, ThreadsAndFlushesLoseNothing) {
  constexpr int kThreads = 4;
  constexpr int kLaunches = 1000;
  enable({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_RUNTIME});
  std::atomic<bool> stop{false};
  std::thread flusher([&] {
    while (!stop) cuptiActivityFlushAll(0);
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([] {
      TestStream stream;
      for (int k = 0; k < kLaunches; ++k) EXPECT_CUDA(kTiny.launch(stream));
      EXPECT_CUDA(cudaStreamSynchronize(stream));
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop = true;
  flusher.join();
  ASSERT_EQ(CUPTI_SUCCESS, cuptiActivityFlushAll(0));
  const auto records = taken<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  std::set<uint32_t> ids;
  for (const auto& r : records) ids.insert(r.correlationId);
  EXPECT_EQ(size_t{kThreads * kLaunches}, records.size());
  EXPECT_EQ(records.size(), ids.size());
}

TEST_F(Cupti, EveryApiRecordHasItsDeviceRecord) {
  enable({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_RUNTIME});
  TestStream stream;
  for (int i = 0; i < 20; ++i) ASSERT_CUDA(kShort.launch(stream));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  ASSERT_EQ(CUPTI_SUCCESS, cuptiActivityFlushAll(0));
  std::map<uint32_t, int> launches;
  for (const auto& api : taken<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_RUNTIME)) {
    const char* name = nullptr;
    ASSERT_EQ(CUPTI_SUCCESS, cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API, api.cbid, &name));
    if (std::strcmp(name, "cudaLaunchKernel_v7000") == 0) ++launches[api.correlationId];
    EXPECT_LE(api.start, api.end);
  }
  EXPECT_EQ(20u, launches.size());
  for (const auto& r : taken<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)) {
    EXPECT_EQ(1, launches[r.correlationId]);
  }
}

TEST_F(Cupti, SingleFunctionsCanBeChosen) {
  ASSERT_EQ(CUPTI_SUCCESS, cuptiActivityEnableRuntimeApi(CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, 1));
  TestStream stream;
  ASSERT_CUDA(kShort.launch(stream));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  ASSERT_EQ(CUPTI_SUCCESS, cuptiActivityFlushAll(0));
  const auto records = taken<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_RUNTIME);
  ASSERT_EQ(1u, records.size());
  EXPECT_EQ(static_cast<uint32_t>(CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000), records[0].cbid);
}

TEST_F(Cupti, CopiesTellTheirMemory) {
  enable({CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET});
  constexpr size_t kBytes = 1 << 20;
  std::vector<char> pageable(kBytes);
  void *device = nullptr, *pinned = nullptr;
  ASSERT_CUDA(cudaMalloc(&device, kBytes));
  ASSERT_CUDA(cudaMallocHost(&pinned, kBytes));
  ASSERT_CUDA(cudaMemcpy(device, pageable.data(), kBytes, cudaMemcpyHostToDevice));
  ASSERT_CUDA(cudaMemcpy(pinned, device, kBytes, cudaMemcpyDeviceToHost));
  ASSERT_CUDA(cudaMemset(device, 1, kBytes));
  ASSERT_CUDA(cudaDeviceSynchronize());
  ASSERT_EQ(CUPTI_SUCCESS, cuptiActivityFlushAll(0));
  const auto copies = taken<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY);
  ASSERT_EQ(2u, copies.size());
  EXPECT_EQ(CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, copies[0].copyKind);
  EXPECT_EQ(CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE, copies[0].srcKind);
  EXPECT_EQ(CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, copies[0].dstKind);
  EXPECT_EQ(CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, copies[1].copyKind);
  EXPECT_EQ(CUPTI_ACTIVITY_MEMORY_KIND_PINNED, copies[1].dstKind);
  EXPECT_EQ(kBytes, copies[1].bytes);
  EXPECT_EQ(0u, copies[0].correlationId);  // nothing records or is told of API calls
  EXPECT_EQ(1u, taken<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET).size());
  EXPECT_CUDA(cudaFree(device));
  EXPECT_CUDA(cudaFreeHost(pinned));
}

TEST_F(Cupti, RecordsAreHeldBackUntilTheDeviceHasPassedThem) {
  enable({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL});
  TestStream stream;
  Gate gate;
  ASSERT_CUDA(kShort.launch(stream));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  ASSERT_CUDA(gate.hold(stream));
  ASSERT_CUDA(kLong.launch(stream));
  ASSERT_EQ(CUPTI_SUCCESS, cuptiActivityFlushAll(0));
  EXPECT_EQ(1u, taken<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL).size());
  gate.open();
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  ASSERT_EQ(CUPTI_SUCCESS, cuptiActivityFlushAll(0));
  EXPECT_EQ(2u, taken<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL).size());
}

TEST_F(Cupti, RefusedBuffersAreCountedAsLoss) {
  size_t dropped = 0;
  enable({CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL});
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped);
  g_collected.refuse = true;
  TestStream stream;
  for (int i = 0; i < 10; ++i) ASSERT_CUDA(kShort.launch(stream));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  ASSERT_EQ(CUPTI_SUCCESS, cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped));
  EXPECT_EQ(10u, dropped);
  ASSERT_EQ(CUPTI_SUCCESS, cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped));
  EXPECT_EQ(0u, dropped);
}

TEST_F(Cupti, SynchronisationIsRecordedWithItsStream) {
  enable({CUPTI_ACTIVITY_KIND_SYNCHRONIZATION});
  TestStream stream;
  unsigned long long id = 0;
  ASSERT_CUDA(cudaStreamGetId(stream, &id));
  ASSERT_CUDA(kShort.launch(stream));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  ASSERT_EQ(CUPTI_SUCCESS, cuptiActivityFlushAll(0));
  const auto records = taken<CUpti_ActivitySynchronization2>(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
  ASSERT_EQ(1u, records.size());
  EXPECT_EQ(CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE, records[0].type);
  EXPECT_EQ(id, records[0].streamId);
}

TEST_F(Cupti, ExternalIdsGoWithTheCallsInside) {
  enable({CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
          CUPTI_ACTIVITY_KIND_RUNTIME});
  TestStream stream;
  ASSERT_EQ(CUPTI_SUCCESS,
            cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2, 77));
  ASSERT_CUDA(kShort.launch(stream));
  uint64_t id = 0;
  ASSERT_EQ(CUPTI_SUCCESS,
            cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2, &id));
  EXPECT_EQ(77u, id);
  EXPECT_EQ(CUPTI_ERROR_QUEUE_EMPTY,
            cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2, &id));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  ASSERT_EQ(CUPTI_SUCCESS, cuptiActivityFlushAll(0));
  const auto external = taken<CUpti_ActivityExternalCorrelation>(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
  const auto kernels = taken<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  ASSERT_EQ(1u, external.size());
  ASSERT_EQ(1u, kernels.size());
  EXPECT_EQ(kernels[0].correlationId, external[0].correlationId);
}

TEST_F(Cupti, AGraphIsOneRecordWhenAskedFor) {
  TestStream stream;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < 4; ++i) ASSERT_CUDA(kShort.launch(stream));
  ASSERT_CUDA(cudaStreamEndCapture(stream, &graph));
  ASSERT_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  enable({CUPTI_ACTIVITY_KIND_GRAPH_TRACE, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL});
  ASSERT_CUDA(cudaGraphLaunch(exec, stream));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  ASSERT_EQ(CUPTI_SUCCESS, cuptiActivityFlushAll(0));
  const auto graphs = taken<CUpti_ActivityGraphTrace2>(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  ASSERT_EQ(1u, graphs.size());
  EXPECT_EQ(200'000u, graphs[0].end - graphs[0].start);
  EXPECT_TRUE(taken<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL).empty());
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
  EXPECT_CUDA(cudaGraphDestroy(graph));
}

struct Calls {
  std::vector<std::string> sites;
  std::vector<uint32_t> ids;
  std::string symbol;
};

void on_call(void* user, CUpti_CallbackDomain domain, CUpti_CallbackId, const void* bytes) {
  auto* calls = static_cast<Calls*>(user);
  const auto* data = static_cast<const CUpti_CallbackData*>(bytes);
  ASSERT_EQ(CUPTI_CB_DOMAIN_RUNTIME_API, domain);
  calls->sites.push_back(std::string(data->callbackSite == CUPTI_API_ENTER ? "enter " : "exit ") +
                         data->functionName);
  calls->ids.push_back(data->correlationId);
  if (data->symbolName) calls->symbol = data->symbolName;
  if (data->callbackSite == CUPTI_API_ENTER) *data->correlationData = 11;
  if (data->callbackSite == CUPTI_API_EXIT) {
    EXPECT_EQ(11u, *data->correlationData);
    EXPECT_EQ(cudaSuccess, *static_cast<cudaError_t*>(data->functionReturnValue));
  }
}

TEST_F(Cupti, CallbacksComeInPairsOnTheCallingThread) {
  Calls calls;
  CUpti_SubscriberHandle subscriber;
  ASSERT_EQ(CUPTI_SUCCESS, cuptiSubscribe(&subscriber, on_call, &calls));
  ASSERT_EQ(CUPTI_SUCCESS, cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API,
                                               CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000));
  TestStream stream;
  ASSERT_CUDA(kShort.launch(stream));
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  ASSERT_EQ(CUPTI_SUCCESS, cuptiUnsubscribe(subscriber));
  ASSERT_CUDA(kShort.launch(stream));
  EXPECT_EQ((std::vector<std::string>{"enter cudaLaunchKernel", "exit cudaLaunchKernel"}), calls.sites);
  ASSERT_EQ(2u, calls.ids.size());
  EXPECT_EQ(calls.ids[0], calls.ids[1]);
  EXPECT_EQ("cupti_50us", calls.symbol);
}

TEST_F(Cupti, ThereIsOneSubscriberAndItsNameIsTold) {
  CUpti_SubscriberHandle first, second;
  CUpti_SubscriberParams parameters{};
  parameters.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
  parameters.subscriberName = "first tool";
  ASSERT_EQ(CUPTI_SUCCESS, cuptiSubscribe_v2(&first, on_call, nullptr, &parameters));
  char holder[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN] = "";
  parameters.subscriberName = "second tool";
  parameters.oldSubscriberName = holder;
  parameters.oldSubscriberSize = sizeof holder;
  EXPECT_EQ(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED,
            cuptiSubscribe_v2(&second, on_call, nullptr, &parameters));
  EXPECT_STREQ("CUPTI for first tool", holder);
  ASSERT_EQ(CUPTI_SUCCESS, cuptiUnsubscribe(first));
  ASSERT_EQ(CUPTI_SUCCESS, cuptiSubscribe(&second, on_call, nullptr));
  ASSERT_EQ(CUPTI_SUCCESS, cuptiUnsubscribe(second));
}

uint64_t realtime_clock() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
}

uint64_t counter_clock() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1'000 + 2 * (static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec));
}

TEST_F(Cupti, AClientsClockReplacesTheDefault) {
  ASSERT_EQ(CUPTI_SUCCESS, cuptiActivityRegisterTimestampCallback(counter_clock));
  uint64_t stamp = 0;
  const uint64_t before = counter_clock();
  ASSERT_EQ(CUPTI_SUCCESS, cuptiGetTimestamp(&stamp));
  constexpr uint64_t kPreemptedNs = 200'000'000;  // another clock would be off by the machine's uptime
  EXPECT_GE(stamp + kPreemptedNs, before);
  EXPECT_LE(stamp, counter_clock() + kPreemptedNs);
  // The real library has no way back (CUPTI 13.0, seen): who wants the default clock has to give it.
  EXPECT_EQ(CUPTI_ERROR_INVALID_PARAMETER, cuptiActivityRegisterTimestampCallback(nullptr));
  ASSERT_EQ(CUPTI_SUCCESS, cuptiActivityRegisterTimestampCallback(realtime_clock));
}

}  // namespace
