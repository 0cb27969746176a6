// SPDX-License-Identifier: Apache-2.0
#include "run_builder.h"

#include <algorithm>

#include "libinject/trace/layout.h"

namespace gpuwatch::test {

using model::HostCall;
using model::Ns;
using model::TimeSpan;
using trace::OpClass;
using trace::RecordKind;

RunBuilder::RunBuilder() {
  run.processes.resize(1);
  process().training_thread = 0;
  process().devices.resize(1);
  process().streams.resize(4);
  run.kernels.resize(2);
  run.kernels[1].is_communication = true;
}

uint32_t RunBuilder::thread(const std::string& name) {
  process().threads.emplace_back();
  process().threads.back().name = name;
  return static_cast<uint32_t>(process().threads.size()) - 1;
}

uint16_t RunBuilder::operation(const std::string& name, OpClass op_class) {
  for (size_t i = 0; i < run.operations.size(); ++i) {
    if (run.operations[i].name == name && run.operations[i].op_class == op_class)
      return static_cast<uint16_t>(i);
  }
  run.operations.push_back({name, op_class});
  return static_cast<uint16_t>(run.operations.size() - 1);
}

void RunBuilder::call(uint32_t thread, OpClass op_class, Ns begin, Ns end, const std::string& name,
                      uint32_t object, uint32_t argument, uint8_t flags) {
  const std::string shown = name.empty() ? trace::EnumNameOpClass(op_class) : name;
  process().threads[thread].calls.push_back(
      {begin, end, object, argument, model::kNone, operation(shown, op_class), op_class, flags});
}

void RunBuilder::cuda(uint32_t thread, OpClass op_class, Ns begin, Ns end, const CopyShape& shape,
                      const std::string& name) {
  call(thread, op_class, begin, end, name);
  const uint8_t host = shape.pageable ? 1 : 2;
  const bool to_device = shape.kind == RecordKind::CopyH2D;
  const uint8_t memory =
      to_device ? static_cast<uint8_t>(host << 4 | 3) : static_cast<uint8_t>(3 << 4 | host);
  if (detail_kind(op_class) == trace::DetailKind::kEvent) {
    auto& details = process().threads[thread].event_details;
    process().threads[thread].calls.back().detail = static_cast<uint32_t>(details.size());
    details.emplace_back(0, 0, shape.stream, 0);
    return;
  }
  auto& details = process().threads[thread].call_details;
  process().threads[thread].calls.back().detail = static_cast<uint32_t>(details.size());
  details.emplace_back(shape.bytes, 0, shape.stream, static_cast<uint8_t>(to_device ? 1 : 2), memory, 0);
}

void RunBuilder::cpu(uint32_t thread, OpClass op_class, Ns begin, Ns end, Ns run_delay_ns) {
  call(thread, op_class, begin, end);
  auto& details = process().threads[thread].cpu_details;
  process().threads[thread].calls.back().detail = static_cast<uint32_t>(details.size());
  details.emplace_back(0, static_cast<uint64_t>(run_delay_ns), 0, 0);
}

void RunBuilder::kernel(uint32_t thread, TimeSpan launch, TimeSpan device, uint16_t stream,
                        bool is_communication) {
  CopyShape shape;
  shape.stream = stream + 1;
  cuda(thread, OpClass::Launch, launch.begin, launch.end, shape);
  device_op(RecordKind::Kernel, device, stream, is_communication);
  process().threads[thread].calls.back().correlation_or_object = next_correlation_;
  process().devices[0].operations.back().correlation = next_correlation_++;
}

void RunBuilder::copy(uint32_t thread, TimeSpan host, TimeSpan device, const CopyShape& shape,
                      uint16_t stream) {
  cuda(thread, OpClass::Copy, host.begin, host.end, shape);
  device_op(shape.kind, device, stream);
  process().threads[thread].calls.back().correlation_or_object = next_correlation_;
  model::DeviceOp& op = process().devices[0].operations.back();
  op.correlation = next_correlation_++;
  op.bytes = shape.bytes;
  op.flags = shape.pageable ? trace::kSourcePageable : 0;
}

void RunBuilder::device_op(RecordKind kind, TimeSpan time, uint16_t stream, bool is_communication) {
  model::DeviceOp op{};
  op.begin = time.begin;
  op.end = time.end;
  op.kind = kind;
  op.kernel = is_communication ? 1 : 0;
  op.launch_thread = op.launch_call = model::kNone;
  op.stream = stream;
  process().devices[0].operations.push_back(op);
}

void RunBuilder::finish() {
  auto& operations = process().devices[0].operations;
  std::stable_sort(operations.begin(), operations.end(),
                   [](const model::DeviceOp& a, const model::DeviceOp& b) { return a.begin < b.begin; });
  for (uint32_t t = 0; t < process().threads.size(); ++t) {
    auto& calls = process().threads[t].calls;
    std::stable_sort(calls.begin(), calls.end(), [](const HostCall& a, const HostCall& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
    });
    for (uint32_t i = 0; i < calls.size(); ++i) {
      if (calls[i].op_class != OpClass::Launch && calls[i].op_class != OpClass::Copy) continue;
      for (model::DeviceOp& op : operations) {
        if (op.correlation == 0 || op.correlation != calls[i].correlation_or_object) continue;
        op.launch_thread = t;
        op.launch_call = i;
      }
    }
  }
}

attribute::RankAttribution RunBuilder::attribute(Ns begin, const std::vector<Ns>& ends) {
  finish();
  model::StepSeries series;
  for (const Ns end : ends) {
    series.steps.push_back({begin, end});
    begin = end;
  }
  return attribute::attribute_process(run, 0, series).at(0);
}

}  // namespace gpuwatch::test
