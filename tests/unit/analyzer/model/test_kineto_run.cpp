// SPDX-License-Identifier: Apache-2.0
#include <random>

#include "analyzer/model/build.h"
#include "analyzer/model/kineto_names.h"
#include "analyzer/model/steps.h"
#include "libinject/trace/layout.h"
#include "tests/unit/analyzer/scratch_file.h"

namespace gpuwatch::model {
namespace {

using test::says;
using trace::OpClass;
using trace::RecordKind;

// Two steps, out of order: each copies from pageable memory, waits for that, launches a kernel.
constexpr const char* kTrace = R"json({
  "distributedInfo": {"rank": 3, "world_size": 8},
  "deviceProperties": [{"id": 1, "name": "A100", "computeMajor": 8, "computeMinor": 0, "numSms": 108}],
  "traceEvents": [
  {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "pid": 1, "tid": 20, "ts": 1160.5, "dur": 30,
   "args": {"device": 1, "context": 1, "stream": 20, "correlation": 4}},
  {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 1, "tid": 7, "ts": 1150, "dur": 40,
   "args": {"device": 1, "context": 1, "stream": 7, "correlation": 3, "grid": [4, 1, 1], "block": [128, 1, 1]}},
  {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "pid": 1, "tid": 7, "ts": 1110, "dur": 20,
   "args": {"device": 1, "context": 1, "stream": 7, "correlation": 1, "bytes": 4096}},
  {"ph": "X", "cat": "gpu_memset", "name": "Memset (Device)", "pid": 1, "tid": 7, "ts": 1230, "dur": 5,
   "args": {"device": 1, "context": 1, "stream": 7, "correlation": 99, "bytes": 64}},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 50, "tid": 60, "ts": 1140, "dur": 5,
   "args": {"correlation": 3}},
  {"ph": "X", "cat": "cuda_driver", "name": "cuLaunchKernelEx", "pid": 50, "tid": 51, "ts": 1146, "dur": 5,
   "args": {"correlation": 4}},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "pid": 50, "tid": 50, "ts": 1116, "dur": 16,
   "args": {"correlation": 2}},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "pid": 50, "tid": 50, "ts": 1105, "dur": 10,
   "args": {"correlation": 1}},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamIsCapturing", "pid": 50, "tid": 50, "ts": 1104, "dur": 1,
   "args": {"correlation": 77}},
  {"ph": "X", "cat": "user_annotation", "name": "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "pid": 50,
   "tid": 50, "ts": 1201, "dur": 9},
  {"ph": "X", "cat": "user_annotation", "name": "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "pid": 50,
   "tid": 50, "ts": 1101, "dur": 2},
  {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#8", "pid": 50, "tid": 50, "ts": 1200, "dur": 60},
  {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#7", "pid": 50, "tid": 50, "ts": 1100, "dur": 98},
  {"ph": "X", "cat": "user_annotation", "name": "Optimizer.step#SGD.step", "pid": 50, "tid": 50, "ts": 1170, "dur": 5}
]})json";

class KinetoRunTest : public test::FileTest {
 protected:
  model::Run build(const std::string& json) { return build_run(std::vector{save(json)}); }
  std::string error(const std::string& json) {
    return error_of([&] { build(json); });
  }
  const Thread& thread(uint32_t tid) {
    for (const Thread& thread : run_.processes.at(0).threads)
      if (thread.tid == tid) return thread;
    throw std::out_of_range("no such thread");
  }
  const HostCall& call(const Thread& thread, const std::string& name) {
    for (const HostCall& call : thread.calls)
      if (run_.operations[call.operation].name == name) return call;
    throw std::out_of_range(name);
  }
  model::Run run_;
};

TEST_F(KinetoRunTest, CarriesWhatTheDeviceDid) {
  run_ = build(kTrace);
  ASSERT_EQ(run_.processes.size(), 1);
  const Process& process = run_.processes[0];
  EXPECT_EQ(process.rank, 3);
  EXPECT_EQ(process.world_size, 8);
  EXPECT_EQ(process.pid, 50);
  EXPECT_TRUE(process.facts.contains("torch")) << "advice in PyTorch's words";
  ASSERT_EQ(process.devices.size(), 1);
  const Device& device = process.devices[0];
  EXPECT_EQ(device.name, "A100");
  EXPECT_EQ(device.multiprocessors, 108);
  ASSERT_EQ(device.operations.size(), 4);  // by begin
  const DeviceOp& copy = device.operations[0];
  EXPECT_EQ(copy.kind, RecordKind::CopyH2D);
  EXPECT_EQ(copy.flags, trace::kSourcePageable);
  EXPECT_EQ(copy.bytes, 4096);
  EXPECT_EQ(copy.end - copy.begin, 20'000);
  const DeviceOp& kernel = device.operations[1];
  EXPECT_EQ(run_.kernels[kernel.kernel].name, "gemm");
  EXPECT_EQ(run_.kernels[kernel.kernel].block[0], 128);
  EXPECT_FALSE(run_.kernels[kernel.kernel].is_communication);
  EXPECT_TRUE(run_.kernels[device.operations[2].kernel].is_communication);
  EXPECT_EQ(device.operations[2].begin - kernel.begin, 10'500);
  EXPECT_EQ(process.streams[kernel.stream].id, 7);
  EXPECT_EQ(process.streams[device.operations[2].stream].id, 20);
  EXPECT_EQ(device.operations[3].kind, RecordKind::Memset);
}

TEST_F(KinetoRunTest, JoinsWorkToTheCallsThatLaunchedIt) {
  run_ = build(kTrace);
  const auto& operations = run_.processes[0].devices[0].operations;
  EXPECT_EQ(run_.processes[0].threads[operations[1].launch_thread].tid, 60);
  EXPECT_EQ(run_.processes[0].threads[operations[2].launch_thread].tid, 51);
  EXPECT_EQ(operations[3].launch_thread, kNone);  // its call is not in the trace
  EXPECT_EQ(run_.kernels_total, 2);
  EXPECT_EQ(run_.kernels_matched, 2);
}

TEST_F(KinetoRunTest, ASynchronisationBehindACopyIsOfItsStream) {
  run_ = build(kTrace);
  const Thread& trainer = thread(50);
  const auto detail = [&](const char* name) { return trainer.call_details.at(call(trainer, name).detail); };
  EXPECT_EQ(detail("cudaMemcpyAsync").stream(), 7);
  EXPECT_EQ(detail("cudaMemcpyAsync").bytes(), 4096);
  EXPECT_EQ(detail("cudaMemcpyAsync").direction(), 1);
  EXPECT_EQ(detail("cudaMemcpyAsync").memory(), 0x13);
  EXPECT_EQ(stream_of(trainer, call(trainer, "cudaStreamSynchronize")), 7u);
}

TEST_F(KinetoRunTest, TheProfilersStepsAreTheSteps) {
  run_ = build(kTrace);
  const Process& process = run_.processes[0];
  ASSERT_NE(process.training_thread, kNone);
  EXPECT_EQ(process.threads[process.training_thread].tid, 50);  // though another one launches
  const StepSeries series = find_steps(run_, process);
  EXPECT_EQ(series.source, "profiler");
  ASSERT_EQ(series.steps.size(), 2);
  EXPECT_EQ(series.steps[0].end - series.steps[0].begin, 100'000);
  EXPECT_EQ(series.steps[0].end, series.steps[1].begin);
  EXPECT_EQ(series.steps[1].end - series.steps[1].begin, 60'000);
  EXPECT_EQ(series.steps[1].batches, 1);
}

TEST_F(KinetoRunTest, WithoutMarksItIsOneInterval) {
  run_ = build(R"({"traceEvents": [
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 5, "tid": 5, "ts": 100, "dur": 5,
     "args": {"correlation": 3}},
    {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 150, "dur": 40,
     "args": {"device": 0, "stream": 7, "correlation": 3}}]})");
  const StepSeries series = find_steps(run_, run_.processes[0]);
  EXPECT_EQ(series.source, "trace");
  ASSERT_EQ(series.steps.size(), 1);
  EXPECT_EQ(series.steps[0].end - series.steps[0].begin, 90'000);
}

TEST_F(KinetoRunTest, WaitsForDataAreTheLoaders) {
  run_ = build(kTrace);
  const Process& process = run_.processes[0];
  ASSERT_EQ(process.loaders.size(), 1);
  EXPECT_EQ(process.loaders[0].num_workers, 0);
  EXPECT_EQ(process.threads[process.loaders[0].thread].tid, 50);
  ASSERT_EQ(process.epochs.size(), 1);
  ASSERT_EQ(process.epochs[0].batches.size(), 2);
  EXPECT_EQ(process.epochs[0].batches[0].next.length(), 2'000);
  EXPECT_EQ(process.epochs[0].batches[1].next.length(), 9'000);
  EXPECT_EQ(process.epochs[0].batches[1].fetch.length(), 0);  // what it did meanwhile is not known
}

TEST_F(KinetoRunTest, KeepsOperatorsThatAGapMayLieIn) {
  std::string json = kTrace;
  const std::string more =
      R"({"ph": "X", "cat": "cpu_op", "name": "aten::topk", "pid": 50, "tid": 50, "ts": 1300, "dur": 1500, "args": {"a": 1}},
         {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 50, "tid": 50, "ts": 3000, "dur": 15},)";
  json.insert(json.find('[', json.find("traceEvents")) + 1, more);
  run_ = build(json);
  EXPECT_EQ(call(thread(50), "aten::topk").end - call(thread(50), "aten::topk").begin, 1'500'000);
  EXPECT_THROW(call(thread(50), "aten::add"), std::out_of_range);
}

TEST_F(KinetoRunTest, OneEventFarAwayMovesNothing) {
  std::string json = kTrace;
  json.insert(json.find("  {\"ph\""),
              R"({"ph": "X", "cat": "kernel", "name": "k", "ts": 1712195495505543, "dur": 1,
    "args": {"device": 1, "stream": 7}},)");
  run_ = build(json);
  EXPECT_EQ(run_.processes[0].devices[0].operations.size(), 4);
  ASSERT_EQ(run_.damage.size(), 1);
  EXPECT_TRUE(says(run_.damage[0], "1 events have no time"));
}

TEST_F(KinetoRunTest, SaysWhatIsMissing) {
  EXPECT_TRUE(
      says(error(R"({"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 1}]})"),
           "1 events and none of a device; profile with activities="));
  const std::string ours = save("", "own.gwt"), theirs = save(kTrace);
  EXPECT_TRUE(says(error_of([&] { build_run(std::vector{ours, theirs}); }), "do not go into one report"));
}

TEST_F(KinetoRunTest, RanksAreReadTogether) {
  std::string other = kTrace;
  other.replace(other.find("\"rank\": 3"), 9, "\"rank\": 4");
  const model::Run run = build_run(std::vector{save(kTrace, "3.json"), save(other, "4.json")});
  ASSERT_EQ(run.processes.size(), 2);
  EXPECT_EQ(run.processes[0].rank, 3);
  EXPECT_EQ(run.processes[1].rank, 4);
  EXPECT_EQ(run.operations.size(), 6);  // equal names are one
}

// Whatever a file holds, it is a run or a sentence.
TEST_F(KinetoRunTest, MutationsDoNoHarm) {
  std::mt19937 random(1);
  const std::string whole = kTrace;
  const std::string bytes = "{}[]\",:0159e-.\\ntru\xff";
  size_t read = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string json = whole;
    for (size_t j = 0; j < 1 + random() % 4; ++j) {
      const size_t at = random() % json.size();
      switch (random() % 3) {
        case 0:
          json[at] = bytes[random() % bytes.size()];
          break;
        case 1:
          json.erase(at, random() % 40);
          break;
        default:
          json.insert(at, json.substr(random() % json.size(), random() % 200));
      }
    }
    const std::string sentence = error_of([&] {
      const model::Run run = build(json);
      for (const Process& process : run.processes) find_steps(run, process);
      ++read;
    });
    EXPECT_EQ(sentence.find('\n'), std::string::npos);
  }
  EXPECT_GT(read, 100);  // many a change is harmless, and they must not all end at the first check
}

TEST(KinetoNames, CallsAreTakenByTheirWords) {
  const std::pair<const char*, OpClass> kNames[] = {
      {"cudaLaunchKernel", OpClass::Launch},
      {"cudaLaunchKernelExC_v11060", OpClass::Launch},
      {"cuLaunchKernel", OpClass::Launch},
      {"cudaLaunchHostFunc", OpClass::HostFunction},
      {"cudaGraphLaunch", OpClass::GraphLaunch},
      {"cudaMemcpyAsync", OpClass::Copy},
      {"cuMemcpyHtoD_v2", OpClass::Copy},
      {"cudaMemsetAsync", OpClass::Memset},
      {"cudaDeviceSynchronize", OpClass::Sync},
      {"cuCtxSynchronize", OpClass::Sync},
      {"cudaEventSynchronize", OpClass::Sync},
      {"cudaStreamWaitEvent", OpClass::StreamWait},
      {"cudaMalloc", OpClass::Alloc},
      {"cuMemCreate", OpClass::Alloc},
      {"cudaFree", OpClass::Free},
      {"cudaHostAlloc", OpClass::Alloc},
      {"cudaStreamBeginCapture_v10000", OpClass::Capture},
      {"cudaGraphInstantiateWithFlags", OpClass::GraphBuild},
      {"cudaEventRecord", OpClass::Event},
      {"cuModuleLoadData", OpClass::ModuleLoad},
      {"cudaEventQuery", OpClass::Other},
      {"cudaFuncSetAttribute", OpClass::Other},
      {"cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", OpClass::Other},
      {"INVALID", OpClass::Other},
      {"", OpClass::Other}};
  for (const auto& [name, op_class] : kNames) EXPECT_EQ(cuda_call_class(name), op_class) << name;
}

}  // namespace
}  // namespace gpuwatch::model
