// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/memory_calls.h"

#include <algorithm>

#include "analyzer/advise/recurrence.h"

namespace gpuwatch::advise {
namespace {

using model::HostCall;
using trace::OpClass;

// cudaMallocHost, cudaHostAlloc, cudaHostRegister, cuMemHostUnregister, cudaFreeHost.
bool is_of_host_memory(const RuleInput& input, const HostCall& call) {
  return call.operation < input.run.operations.size() &&
         input.run.operations[call.operation].name.find("Host") != std::string::npos;
}

void add_retries(const RuleInput& input, uint32_t thread, std::vector<AllocationRetry>& retries) {
  const std::vector<HostCall>& calls = input.process.threads[thread].calls;
  uint32_t failed = model::kNone;
  bool has_freed = false;
  for (uint32_t i = 0; i < calls.size(); ++i) {
    const HostCall& call = calls[i];
    if (enqueues(call.op_class)) failed = model::kNone;  // the program went on without that memory
    if (frees_device_memory(input, call)) has_freed = true;
    if (!allocates_device_memory(input, call)) continue;
    if (call.failed() && failed == model::kNone) {
      failed = i;
      has_freed = false;
    } else if (!call.failed() && failed != model::kNone) {
      if (has_freed) retries.push_back({{calls[failed].begin, call.end}, thread, failed});
      failed = model::kNone;
    }
  }
}

}  // namespace

bool allocates_device_memory(const RuleInput& input, const HostCall& call) {
  return call.op_class == OpClass::Alloc && !is_of_host_memory(input, call);
}

bool frees_device_memory(const RuleInput& input, const HostCall& call) {
  return call.op_class == OpClass::Free && !is_of_host_memory(input, call);
}

std::vector<AllocationRetry> allocation_retries(const RuleInput& input) {
  std::vector<AllocationRetry> retries;
  for (uint32_t thread = 0; thread < input.process.threads.size(); ++thread)
    add_retries(input, thread, retries);
  return retries;
}

bool is_out_of_device_memory(const RuleInput& input) {
  std::vector<model::TimeSpan> spans;
  for (const AllocationRetry& retry : allocation_retries(input)) spans.push_back(retry.time);
  return recurrence_of(input, std::move(spans)).goes_on();
}

}  // namespace gpuwatch::advise
