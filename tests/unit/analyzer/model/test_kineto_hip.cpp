// SPDX-License-Identifier: Apache-2.0
// Traces of AMD GPUs: the same events with HIP's names, and without what ROCm's profiler does not tell.
#include "analyzer/model/build.h"
#include "analyzer/model/kineto_names.h"
#include "analyzer/model/steps.h"
#include "tests/unit/analyzer/scratch_file.h"

namespace gpuwatch::model {
namespace {

using trace::OpClass;
using trace::RecordKind;

// One launch by the module's API, whose grid is in threads, one by the runtime's, a copy and the wait for it.
constexpr const char* kTrace = R"json({
  "hip_runtime_version": 60443483, "roctracer_version": 4.1,
  "deviceProperties": [{"id": 1, "name": "AMD Instinct MI300X", "computeMajor": 9, "computeMinor": 4, "numSms": 304,
                        "warpSize": 64}],
  "traceEvents": [
  {"ph": "X", "cat": "cuda_runtime", "name": "hipExtModuleLaunchKernel", "pid": 50, "tid": 50, "ts": 100, "dur": 5,
   "args": {"kernel": "igemm_fwd_gtcx3", "cid": 65, "correlation": 1, "grid": [65536, 1, 1], "block": [256, 1, 1]}},
  {"ph": "X", "cat": "cuda_runtime", "name": "hipLaunchKernel", "pid": 50, "tid": 50, "ts": 110, "dur": 5,
   "args": {"cid": 211, "correlation": 2, "grid": [40, 2, 1], "block": [128, 1, 1]}},
  {"ph": "X", "cat": "cuda_runtime", "name": "hipMemcpyWithStream", "pid": 50, "tid": 50, "ts": 120, "dur": 90,
   "args": {"cid": 300, "correlation": 3, "src": "0x7f", "dst": "0x80", "bytes": "512", "kind": "2"}},
  {"ph": "X", "cat": "cuda_runtime", "name": "hipDeviceSynchronize", "pid": 50, "tid": 50, "ts": 220, "dur": 9,
   "args": {"cid": 3, "correlation": 4}},
  {"ph": "X", "cat": "cuda_runtime", "name": "hipGetDevicePropertiesR0600", "pid": 50, "tid": 50, "ts": 230, "dur": 9,
   "args": {"cid": 3, "correlation": 5}},
  {"ph": "X", "cat": "kernel", "name": "igemm_fwd_gtcx3", "pid": 1, "tid": 0, "ts": 130, "dur": 20,
   "args": {"device": 1, "stream": 0, "correlation": 1, "kind": "Dispatch Kernel"}},
  {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", "pid": 1, "tid": 0,
   "ts": 160, "dur": 20, "args": {"device": 1, "stream": 0, "correlation": 2, "kind": "Dispatch Kernel"}},
  {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Host)", "pid": 1, "tid": 0, "ts": 190, "dur": 4,
   "args": {"device": 1, "stream": 0, "correlation": 3, "kind": "DtoH", "bytes": 512}}
]})json";

class KinetoHipTest : public test::FileTest {};

TEST_F(KinetoHipTest, LaunchesAreMatchedToKernels) {
  const model::Run run = build_run(std::vector{save(kTrace)});
  const Process& process = run.processes.at(0);
  EXPECT_EQ(run.kernels_total, 2);
  EXPECT_EQ(run.kernels_matched, 2);
  EXPECT_EQ(run.without_record.all_launches(), 0);
  ASSERT_NE(process.training_thread, kNone);
  ASSERT_EQ(process.threads.at(process.training_thread).calls.size(), 4);  // a query says nothing
  const DeviceOp& copy = process.devices.at(0).operations.at(2);
  EXPECT_EQ(copy.kind, RecordKind::CopyD2H);
  EXPECT_NE(copy.launch_call, kNone);
  EXPECT_EQ(process.devices[0].name, "AMD Instinct MI300X");
  EXPECT_TRUE(run.kernels[process.devices[0].operations[1].kernel].is_communication);
}

TEST_F(KinetoHipTest, AKernelHasTheGridOfItsLaunch) {
  const model::Run run = build_run(std::vector{save(kTrace)});
  const auto& operations = run.processes.at(0).devices.at(0).operations;
  EXPECT_EQ(run.kernels[operations[0].kernel].blocks(), 256);  // 65536 threads, 256 a block
  EXPECT_EQ(run.kernels[operations[0].kernel].block[0], 256);
  EXPECT_EQ(run.kernels[operations[1].kernel].blocks(), 80);
}

TEST_F(KinetoHipTest, TheComputeCapabilityOfAnotherVendorIsNotNvidias) {
  const model::Run run = build_run(std::vector{save(kTrace)});
  EXPECT_FALSE(run.processes.at(0).devices.at(0).is_nvidia());
  std::string nvidia = kTrace;
  nvidia.replace(nvidia.find("AMD Instinct MI300X"), 19, "NVIDIA H100 PCIe");
  EXPECT_FALSE(
      build_run(std::vector{save(nvidia)}).processes.at(0).devices.at(0).is_nvidia());  // calls are HIP's
  std::string without_calls = nvidia;
  for (size_t at; (at = without_calls.find("\"hip")) != std::string::npos;)
    without_calls.replace(at, 4, "\"cuda");
  EXPECT_TRUE(build_run(std::vector{save(without_calls)}).processes.at(0).devices.at(0).is_nvidia());
}

TEST_F(KinetoHipTest, AGpuWithoutANameHasItsArchitecture) {
  std::string json = kTrace;
  json.replace(json.find("\"name\": \"AMD Instinct MI300X\""), 29, R"("name": "", "gcnArchName": "gfx1103")");
  const model::Run run = build_run(std::vector{save(json)});
  EXPECT_EQ(run.processes.at(0).devices.at(0).name, "gfx1103");
  EXPECT_FALSE(run.processes[0].devices[0].is_nvidia());
}

TEST(KinetoNames, HipCallsAreTakenByTheSameWords) {
  const std::pair<const char*, OpClass> kNames[] = {{"hipLaunchKernel", OpClass::Launch},
                                                    {"hipExtLaunchKernel", OpClass::Launch},
                                                    {"hipModuleLaunchKernel", OpClass::Launch},
                                                    {"hipExtModuleLaunchKernel", OpClass::Launch},
                                                    {"hipHccModuleLaunchKernel", OpClass::Launch},
                                                    {"hipLaunchCooperativeKernel", OpClass::Launch},
                                                    {"hipLaunchHostFunc", OpClass::HostFunction},
                                                    {"hipGraphLaunch", OpClass::GraphLaunch},
                                                    {"hipMemcpyAsync", OpClass::Copy},
                                                    {"hipMemcpyWithStream", OpClass::Copy},
                                                    {"hipMemsetAsync", OpClass::Memset},
                                                    {"hipStreamSynchronize", OpClass::Sync},
                                                    {"hipDeviceSynchronize", OpClass::Sync},
                                                    {"hipEventSynchronize", OpClass::Sync},
                                                    {"hipMalloc", OpClass::Alloc},
                                                    {"hipExtMallocWithFlags", OpClass::Alloc},
                                                    {"hipHostMalloc", OpClass::Alloc},
                                                    {"hipFree", OpClass::Free},
                                                    {"hipHostFree", OpClass::Free},
                                                    {"hipEventRecord", OpClass::Event},
                                                    {"hipEventDestroy", OpClass::Event},
                                                    {"hipStreamWaitEvent", OpClass::StreamWait},
                                                    {"hipModuleLoadData", OpClass::ModuleLoad},
                                                    {"hipEventQuery", OpClass::Other},
                                                    {"hipPointerGetAttributes", OpClass::Other},
                                                    {"hipGetLastError", OpClass::Other},
                                                    {"__hipPushCallConfiguration", OpClass::Other}};
  for (const auto& [name, op_class] : kNames) EXPECT_EQ(cuda_call_class(name), op_class) << name;
}

}  // namespace
}  // namespace gpuwatch::model
