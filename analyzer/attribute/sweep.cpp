// SPDX-License-Identifier: Apache-2.0
#include "analyzer/attribute/sweep.h"

#include <algorithm>
#include <array>
#include <limits>

namespace gpuwatch::attribute {
namespace {

using model::DeviceOp;
using model::Kernel;
using model::kNone;
using model::Ns;
using trace::RecordKind;

constexpr Ns kForever = std::numeric_limits<Ns>::max();

// In order of precedence.
constexpr std::array kBusyCategories = {Category::Compute, Category::CommUnsplit, Category::CopyH2D,
                                        Category::CopyD2H, Category::CopyD2D};
constexpr size_t kBusyClasses = kBusyCategories.size();
constexpr size_t kNotDeviceWork = kBusyClasses;

size_t busy_class(const DeviceOp& op, std::span<const Kernel> kernels) {
  switch (op.kind) {
    case RecordKind::Kernel:
      return op.kernel < kernels.size() && kernels[op.kernel].is_communication ? 1 : 0;
    case RecordKind::GraphRun:
      return 0;
    case RecordKind::CopyH2D:
      return 2;
    case RecordKind::CopyD2H:
      return 3;
    // A memset moves bytes within the device's memory and computes nothing.
    case RecordKind::CopyD2D:
    case RecordKind::CopyOther:
    case RecordKind::Memset:
      return 4;
    default:
      return kNotDeviceWork;  // synchronisations and overheads are the host's
  }
}

// The part of an operation that no earlier operation of its class covers.
struct Cover {
  Ns begin;
  Ns end;
  uint32_t operation;
};

std::array<std::vector<Cover>, kBusyClasses> covers(std::span<const DeviceOp> operations,
                                                    std::span<const Kernel> kernels) {
  std::array<std::vector<Cover>, kBusyClasses> result;
  for (size_t i = 0; i < operations.size(); ++i) {
    const DeviceOp& op = operations[i];
    const size_t busy = busy_class(op, kernels);
    if (busy == kNotDeviceWork) continue;
    std::vector<Cover>& cover = result[busy];
    const Ns begin = cover.empty() ? op.begin : std::max(op.begin, cover.back().end);
    if (op.end > begin) cover.push_back({begin, op.end, static_cast<uint32_t>(i)});
  }
  return result;
}

class Sweep {
 public:
  Sweep(std::span<const DeviceOp> operations, std::span<const Kernel> kernels, model::TimeSpan window)
      : covers_(covers(operations, kernels)), window_(window) {}

  std::vector<DeviceSegment> run() {
    std::vector<DeviceSegment> segments;
    for (Ns time = window_.begin; time < window_.end;) {
      skip_ended(time);
      segments.push_back(next_segment(time));
      time = segments.back().end;
    }
    return segments;
  }

 private:
  const Cover* current(size_t busy) const {
    return cursors_[busy] < covers_[busy].size() ? &covers_[busy][cursors_[busy]] : nullptr;
  }

  void skip_ended(Ns time) {
    for (size_t busy = 0; busy < kBusyClasses; ++busy) {
      for (const Cover* cover; (cover = current(busy)) && cover->end <= time; ++cursors_[busy]) {
        if (cover->end > last_end_) {
          last_end_ = cover->end;
          last_operation_ = cover->operation;
        }
      }
    }
  }

  DeviceSegment next_segment(Ns time) const {
    Ns next_begin = kForever;
    uint32_t next_operation = kNone;
    for (size_t busy = 0; busy < kBusyClasses; ++busy) {
      const Cover* cover = current(busy);
      if (!cover) continue;
      if (cover->begin <= time) {
        const Ns end = std::min({cover->end, next_begin, window_.end});
        return {time, end, false, kBusyCategories[busy], cover->operation};
      }
      if (cover->begin < next_begin) {
        next_begin = cover->begin;
        next_operation = cover->operation;
      }
    }
    if (next_begin > window_.end) next_operation = kNone;
    return {time,           std::min(next_begin, window_.end), true, Category::Unknown, next_operation,
            last_operation_};
  }

  std::array<std::vector<Cover>, kBusyClasses> covers_;
  std::array<size_t, kBusyClasses> cursors_{};
  model::TimeSpan window_;
  Ns last_end_ = std::numeric_limits<Ns>::min();
  uint32_t last_operation_ = kNone;
};

}  // namespace

std::vector<DeviceSegment> sweep(std::span<const DeviceOp> operations, std::span<const Kernel> kernels,
                                 model::TimeSpan window) {
  return Sweep(operations, kernels, window).run();
}

}  // namespace gpuwatch::attribute
