// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/host_cause.h"

#include <algorithm>

#include "analyzer/attribute/sync_stall.h"
#include "analyzer/model/pipe_reader.h"

namespace gpuwatch::attribute {
namespace {

using model::HostCall;
using trace::OpClass;
using trace::RecordKind;

// A copy call while the device is idle: the host stages pageable memory, or copies it out; from pinned memory
// it only enqueues.
Category category_of_copy(const ProcessView& view, uint32_t thread, uint32_t call) {
  const ProcessView::CopyFacts copy = view.copy_facts(thread, call);
  return copy.kind == RecordKind::CopyH2D && copy.from_pageable ? Category::CopyStaging : Category::LaunchApi;
}

// Opened to be written to: the next access through a file on this thread is a write.
Category category_of_open(const ProcessView& view, uint32_t thread, uint32_t call) {
  const std::vector<HostCall>& calls = view.thread(thread).calls;
  const size_t end = std::min<size_t>(calls.size(), size_t{call} + kNeighborReach);
  for (uint32_t next = call + 1; next < end && !enqueues(calls[next].op_class); ++next) {
    if (calls[next].op_class == OpClass::Write) return Category::Checkpoint;
    if (calls[next].op_class == OpClass::Read) break;
  }
  return Category::InputIo;
}

// f_type of statfs for descriptors that are no files.
constexpr uint32_t kPipe = model::kPipeFilesystem;
constexpr uint32_t kSocket = 0x534f434b;

// Whoever reads from a pipe waits for another process, an environment for example, and not for storage.
Category category_of_read(const ProcessView& view, uint32_t thread, uint32_t call) {
  const model::Thread& reader = view.thread(thread);
  const uint32_t detail = reader.calls[call].detail;
  if (detail >= reader.io_details.size()) return Category::InputIo;
  const uint32_t filesystem = reader.io_details[detail].filesystem();
  return filesystem == kPipe || filesystem == kSocket ? Category::InputUnknown : Category::InputIo;
}

// Of a single process, which has no peers: the data that it trains on. Where a loader brings those, it is the
// answer of a tracking server or an environment. How much is received does not tell: a server that takes
// long sends the head of its answer first, and then the data in calls too short to be recorded.
Category category_of_receive(const ProcessView& view) {
  return view.takes_batches() ? Category::HostWait : Category::InputIo;
}

}  // namespace

Category category_of_call(const ProcessView& view, uint32_t thread, uint32_t call) {
  switch (view.call(thread, call).op_class) {
    case OpClass::Launch:
    case OpClass::GraphLaunch:
    case OpClass::Memset:
    case OpClass::Event:
    case OpClass::Stream:
    case OpClass::StreamWait:
    case OpClass::HostFunction:
      return Category::LaunchApi;
    case OpClass::Copy:
      return category_of_copy(view, thread, call);
    case OpClass::Sync:
      return sync_stall_category(view, thread, call).value_or(Category::Sync);
    case OpClass::Alloc:
    case OpClass::Free:
      return Category::Alloc;
    case OpClass::ModuleLoad:
    case OpClass::Capture:
    case OpClass::GraphBuild:
      return Category::Compile;
    case OpClass::Collective:
    case OpClass::PointToPoint:
    case OpClass::CommGroup:
    case OpClass::CommLife:
      return Category::CommHost;
    case OpClass::Send:
      return view.process().world_size > 1 ? Category::CommHost : Category::HostWait;
    case OpClass::Receive:
      return view.process().world_size > 1 ? Category::CommHost : category_of_receive(view);
    case OpClass::Write:
    case OpClass::Flush:
    case OpClass::Checkpoint:
      return Category::Checkpoint;
    case OpClass::Open:
      return category_of_open(view, thread, call);
    case OpClass::Read:
      return category_of_read(view, thread, call);
    case OpClass::Stat:
      return Category::InputIo;
    case OpClass::Fetch:  // a dataset used without a loader
      return Category::InputTransform;
    case OpClass::Collate:
      return Category::InputCollate;
    case OpClass::PinBatch:
      return Category::InputPin;
    case OpClass::GarbageCollection:
      return Category::Gc;
    case OpClass::Sleep:
    case OpClass::ChildWait:
      return Category::HostWait;
    default:
      return Category::Unknown;
  }
}

bool is_feeding(Category category) {
  return category == Category::LaunchApi || category == Category::LaunchDispatch ||
         category == Category::DeviceLaunchGap;
}

}  // namespace gpuwatch::attribute
