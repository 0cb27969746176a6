// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/process_view.h"

#include <algorithm>
#include <iterator>

#include "libinject/trace/layout.h"

namespace gpuwatch::attribute {

using model::DeviceOp;
using model::HostCall;
using model::kNone;
using model::Ns;
using trace::OpClass;
using trace::RecordKind;

namespace {

// CallDetail.memory, in each half.
constexpr uint8_t kPageable = 1;
constexpr uint8_t kPinned = 2;
constexpr uint8_t kDevice = 3;

bool is_copy(RecordKind kind) {
  return kind >= RecordKind::CopyH2D && kind <= RecordKind::CopyOther;
}

uint64_t key(uint32_t thread, uint32_t call) {
  return uint64_t{thread} << 32 | call;
}

RecordKind kind_of(const trace::CallDetail& detail) {
  constexpr RecordKind kByDirection[] = {RecordKind::CopyOther, RecordKind::CopyH2D, RecordKind::CopyD2H,
                                         RecordKind::CopyD2D};  // cudaMemcpyKind
  if (detail.direction() < std::size(kByDirection)) return kByDirection[detail.direction()];
  const auto is_host = [](int memory) { return memory == kPageable || memory == kPinned; };
  const int source = detail.memory() >> 4, destination = detail.memory() & 15;
  if (is_host(source) && destination == kDevice) return RecordKind::CopyH2D;
  if (source == kDevice && is_host(destination)) return RecordKind::CopyD2H;
  return RecordKind::CopyOther;
}

}  // namespace

OwnTime own_time(Ns own_ns, Ns cpu_ns, Ns run_delay_ns) {
  const Ns running = cpu_ns + run_delay_ns;
  const Ns delayed =
      running > 0 ? static_cast<Ns>(static_cast<__int128>(own_ns) * run_delay_ns / running) : 0;
  return {std::min(delayed, run_delay_ns), std::max<Ns>(0, own_ns - running)};
}

bool ProcessView::takes_batches() const {
  return std::ranges::any_of(process_.loaders, [this](const model::Loader& loader) {
    return loader.thread == training_thread() || loader.thread == kNone;
  });
}

ProcessView::ProcessView(const model::Run& run, uint32_t process)
    : run_(run), process_(run.processes[process]), activities_(process_.threads.size()) {
  index_threads();
  index_copies();
  if (!process_.facts.contains("python")) return;
  const auto& operations = run_.operations;
  const auto found = std::find_if(
      operations.begin(), operations.end(),
      [](const model::Operation& operation) { return operation.name == "pthread_cond_timedwait"; });
  if (found != operations.end()) lock_wait_ = static_cast<uint16_t>(found - operations.begin());
}

void ProcessView::index_threads() {
  for (uint32_t i = 0; i < process_.threads.size(); ++i) {
    const std::vector<HostCall>& calls = process_.threads[i].calls;
    feeds_.push_back(std::any_of(calls.begin(), calls.end(),
                                 [](const HostCall& call) { return enqueues(call.op_class); }));
    if (feeds_[i]) {
      feeding_threads_.push_back(i);
    } else if (!calls.empty() && i != process_.training_thread) {
      other_threads_.push_back(i);
    }
  }
  std::stable_partition(feeding_threads_.begin(), feeding_threads_.end(),
                        [&](uint32_t thread) { return thread == process_.training_thread; });
}

void ProcessView::index_copies() {
  for (const model::Device& device : process_.devices) {
    for (const DeviceOp& op : device.operations) {
      if (!is_copy(op.kind) || op.launch_thread == kNone || op.launch_call == kNone) continue;
      copies_.push_back({key(op.launch_thread, op.launch_call), &op});
    }
  }
  std::sort(copies_.begin(), copies_.end(),
            [](const DeviceCopy& a, const DeviceCopy& b) { return a.thread_and_call < b.thread_and_call; });
}

ProcessView::CopyFacts ProcessView::copy_facts(uint32_t thread, uint32_t call) const {
  CopyFacts facts;
  if (const trace::CallDetail* detail =
          model::call_detail_of(process_.threads[thread], this->call(thread, call))) {
    facts = {kind_of(*detail), detail->bytes(), detail->memory() >> 4 == kPageable, detail->stream()};
  }
  const auto copy = std::lower_bound(copies_.begin(), copies_.end(), key(thread, call),
                                     [](const DeviceCopy& a, uint64_t b) { return a.thread_and_call < b; });
  if (copy != copies_.end() && copy->thread_and_call == key(thread, call)) {
    facts.kind = copy->operation->kind;
    facts.bytes = copy->operation->bytes;
    facts.from_pageable |= (copy->operation->flags & trace::kSourcePageable) != 0;
  }
  return facts;
}

uint32_t ProcessView::kernel_of(uint32_t thread, uint32_t call) const {
  if (kernels_.empty()) {
    for (const model::Thread& each : process_.threads) kernels_.emplace_back(each.calls.size(), kNone);
    for (const model::Device& device : process_.devices)
      for (const DeviceOp& op : device.operations)
        if (op.launch_thread < kernels_.size() && op.launch_call < kernels_[op.launch_thread].size() &&
            kernels_[op.launch_thread][op.launch_call] == kNone)
          kernels_[op.launch_thread][op.launch_call] = op.kernel;
  }
  return kernels_[thread][call];
}

const Activity& ProcessView::activity(uint32_t thread) const {
  if (!activities_[thread]) {
    activities_[thread] = std::make_unique<Activity>(process_.threads[thread].calls, View::kLaunching);
  }
  return *activities_[thread];
}

}  // namespace gpuwatch::attribute
