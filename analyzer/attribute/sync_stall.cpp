// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/sync_stall.h"

namespace gpuwatch::attribute {
namespace {

using model::kNone;
using model::Ns;
using trace::OpClass;
using trace::RecordKind;
using CopyFacts = ProcessView::CopyFacts;

// The call before, among those that put work on a stream or wait for it.
uint32_t call_before(const ProcessView& view, uint32_t thread, uint32_t call) {
  const uint32_t first = call > kNeighborReach ? call - kNeighborReach : 0;
  while (call-- > first) {
    const OpClass op_class = view.call(thread, call).op_class;
    if (is_cuda(op_class) && op_class != OpClass::Event) return call;
  }
  return kNone;
}

Category copy_category(const CopyFacts& copy) {
  if (copy.kind == RecordKind::CopyH2D) return copy.from_pageable ? Category::CopyStaging : Category::CopyH2D;
  return copy.kind == RecordKind::CopyD2H && copy.bytes > kFewBytes ? Category::CopyD2H : Category::Sync;
}

Category sync_category(const ProcessView& view, uint32_t thread, uint32_t call) {
  const uint32_t before = call_before(view, thread, call);
  if (before == kNone || view.call(thread, before).op_class != OpClass::Copy) return Category::Sync;
  const std::optional<uint32_t> waited_for = model::stream_of(view.thread(thread), view.call(thread, call));
  const CopyFacts copy = view.copy_facts(thread, before);
  return waited_for == copy.stream ? copy_category(copy) : Category::Sync;
}

}  // namespace

std::optional<Category> sync_stall_category(const ProcessView& view, uint32_t thread, uint32_t call) {
  const OpClass op_class = view.call(thread, call).op_class;
  if (op_class == OpClass::Sync) return sync_category(view, thread, call);
  if (op_class != OpClass::Copy) return std::nullopt;
  const CopyFacts copy = view.copy_facts(thread, call);
  return copy.kind == RecordKind::CopyD2H ? std::optional(copy_category(copy)) : std::nullopt;
}

std::optional<SyncStall> sync_stall_at(const ProcessView& view, uint32_t thread, Ns time) {
  const Activity& activity = view.activity(thread);
  const size_t index = activity.index_at(time);
  Stretch stretch = activity[index];
  // The host returns after the device is done. Where it seems to have returned before, the clocks disagree.
  if (stretch.call == kNone && index > 0 && time - stretch.begin <= view.run().clock_error_ns) {
    stretch = activity[index - 1];
  }
  if (stretch.call == kNone || stretch.begin >= time) return std::nullopt;
  const std::optional<Category> category = sync_stall_category(view, thread, stretch.call);
  if (!category) return std::nullopt;
  return SyncStall{*category, thread, stretch.call, time - stretch.begin};
}

}  // namespace gpuwatch::attribute
