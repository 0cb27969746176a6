// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/device_work.h"

#include <algorithm>
#include <unordered_map>

#include "analyzer/model/quantile.h"

namespace gpuwatch::attribute {
namespace {

using model::Device;
using model::DeviceOp;
using model::KernelClass;
using model::kNone;
using model::Ns;
using trace::RecordKind;

constexpr auto kCommunication = static_cast<uint16_t>(KernelClass::kCommunication);

const Device* device_of(const model::Run& run, const RankAttribution& row) {
  const model::Process& process = run.processes.at(row.process);
  return row.device < process.devices.size() ? &process.devices[row.device] : nullptr;
}

KernelClass class_of_kernel(const model::Kernel& kernel) {
  return kernel.is_communication ? KernelClass::kCommunication : model::kernel_class(kernel.name);
}

std::optional<KernelClass> class_of_other(RecordKind kind) {
  switch (kind) {
    case RecordKind::Kernel:
    case RecordKind::GraphRun:
      return KernelClass::kOther;
    case RecordKind::CopyH2D:
    case RecordKind::CopyD2H:
      return KernelClass::kHostCopy;
    case RecordKind::CopyD2D:
    case RecordKind::CopyOther:
    case RecordKind::Memset:
      return KernelClass::kDeviceCopy;
    default:
      return std::nullopt;
  }
}

std::string_view name_of(const model::Run& run, const DeviceOp& op) {
  switch (op.kind) {
    case RecordKind::Kernel:
      return op.kernel < run.kernels.size() ? std::string_view(run.kernels[op.kernel].name)
                                            : "kernel without a name";
    case RecordKind::GraphRun:
      return "CUDA graph";
    case RecordKind::CopyH2D:
      return "H2D copy";
    case RecordKind::CopyD2H:
      return "D2H copy";
    case RecordKind::Memset:
      return "memset";
    default:
      return "copy within the GPU";
  }
}

// Kernels of one name and different grids are one.
std::vector<KernelTime> by_name(const model::Run& run, const Device& device, const RankAttribution& row,
                                std::span<const uint16_t> classes) {
  std::unordered_map<std::string_view, uint16_t> ids;
  std::vector<KernelTime> kernels;
  std::vector<uint16_t> groups(device.operations.size(), kNoGroup);
  for (size_t i = 0; i < groups.size(); ++i) {
    if (classes[i] == kNoGroup) continue;
    const std::string_view name = name_of(run, device.operations[i]);
    const auto [known, is_new] = ids.try_emplace(name, static_cast<uint16_t>(kernels.size()));
    if (is_new && kernels.size() + 1 >= kNoGroup) {
      ids.erase(known);
      continue;
    }
    if (is_new) kernels.push_back({name, static_cast<KernelClass>(classes[i])});
    groups[i] = known->second;
  }
  const std::vector<GroupTime> times = group_times(device, row, groups, kernels.size());
  for (size_t i = 0; i < kernels.size(); ++i) {
    kernels[i].ns = times[i].ns;
    kernels[i].count = times[i].count;
  }
  std::erase_if(kernels, [](const KernelTime& kernel) { return kernel.count == 0; });
  std::ranges::stable_sort(kernels, std::greater<>(), &KernelTime::ns);
  return kernels;
}

struct Launch {
  Ns called, started;
};

std::vector<Launch> launches_in_steps(const model::Run& run, const RankAttribution& row) {
  const Device* device = device_of(run, row);
  if (!device || row.steps.empty()) return {};
  const model::Process& process = run.processes.at(row.process);
  const Ns begin = row.steps.front().step.begin, end = row.steps.back().step.end;
  std::vector<Launch> launches;
  for (const DeviceOp& op : device->operations) {
    if (op.kind != RecordKind::Kernel || op.launch_thread >= process.threads.size()) continue;
    const auto& calls = process.threads[op.launch_thread].calls;
    if (op.launch_call >= calls.size() || op.begin < begin || op.begin >= end) continue;
    launches.push_back({calls[op.launch_call].begin, op.begin});
  }
  return launches;
}

}  // namespace

std::optional<KernelClass> class_of(const model::Run& run, const DeviceOp& op) {
  if (op.kind == RecordKind::Kernel && op.kernel < run.kernels.size())
    return class_of_kernel(run.kernels[op.kernel]);
  return class_of_other(op.kind);
}

std::vector<uint16_t> classes_of(const model::Run& run, const Device& device) {
  std::vector<uint16_t> of_kernel(run.kernels.size(), kNoGroup);
  std::vector<uint16_t> classes;
  classes.reserve(device.operations.size());
  for (const DeviceOp& op : device.operations) {
    if (op.kind != RecordKind::Kernel || op.kernel >= of_kernel.size()) {
      const auto other = class_of_other(op.kind);
      classes.push_back(other ? static_cast<uint16_t>(*other) : kNoGroup);
      continue;
    }
    uint16_t& known = of_kernel[op.kernel];
    if (known == kNoGroup) known = static_cast<uint16_t>(class_of_kernel(run.kernels[op.kernel]));
    classes.push_back(known);
  }
  return classes;
}

std::optional<Communication> communication(const model::Run& run, const RankAttribution& row) {
  const Device* device = device_of(run, row);
  if (!device) return std::nullopt;
  std::vector<uint16_t> groups = classes_of(run, *device);
  for (uint16_t& group : groups) group = group == kCommunication ? 0 : kNoGroup;
  const GroupTime all = group_times(*device, row, groups, 1).front();
  if (all.count == 0) return std::nullopt;
  const Ns exposed =
      row.time(Category::CommUnsplit) + row.time(Category::CommTransfer) + row.time(Category::CommWaitPeer);
  return Communication{all.alone_ns, std::min(exposed, all.alone_ns), all.count};
}

DeviceWork device_work(const model::Run& run, const RankAttribution& row) {
  DeviceWork work;
  const Device* device = device_of(run, row);
  if (!device) return work;
  const std::vector<uint16_t> classes = classes_of(run, *device);
  const std::vector<GroupTime> times = group_times(*device, row, classes, model::kKernelClassCount);
  for (size_t i = 0; i < times.size(); ++i) {
    work.ns += times[i].ns;
    if (times[i].count > 0) work.classes.push_back({static_cast<KernelClass>(i), times[i]});
  }
  std::ranges::stable_sort(work.classes, std::greater<>(), [](const ClassTime& c) { return c.time.ns; });
  work.kernels = by_name(run, *device, row, classes);
  work.communication = communication(run, row);
  return work;
}

std::optional<LaunchQueue> launch_queue(const model::Run& run, const RankAttribution& row) {
  std::vector<Launch> launches = launches_in_steps(run, row);
  if (launches.empty()) return std::nullopt;
  std::ranges::sort(launches, {}, &Launch::called);
  std::vector<Ns> starts;
  for (const Launch& launch : launches) starts.push_back(launch.started);
  std::ranges::sort(starts);
  std::vector<double> leads, depths;
  size_t started = 0, empty = 0;
  for (size_t i = 0; i < launches.size(); ++i) {
    while (started < starts.size() && starts[started] <= launches[i].called) ++started;
    const double depth = i > started ? double(i - started) : 0;
    empty += depth == 0;
    depths.push_back(depth);
    leads.push_back(double(std::max<Ns>(0, launches[i].started - launches[i].called)));
  }
  return LaunchQueue{model::median(std::move(leads)), model::median(std::move(depths)),
                     double(empty) / double(launches.size()), launches.size()};
}

}  // namespace gpuwatch::attribute
