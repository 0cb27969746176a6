// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/sync_reads.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "analyzer/io/printable.h"
#include "analyzer/model/stacks.h"

namespace gpuwatch::advise {
namespace {

using predict::HostEvent;

constexpr double kLeastPart = 0.1;  // of the waits

// A part of a file's name above the script's line, and what to do there; {}: the script's line.
struct Reader {
  std::string_view file;
  const char* remedy;
};
constexpr Reader kReaders[] = {
    {"/amp/grad_scaler.py",
     "use the optimizer with fused=True, which leaves the GradScaler's check for overflow ({}) on the GPU, "
     "or "
     "bfloat16 without a GradScaler"},
    {"/nn/utils/clip_grad.py", "call clip_grad_norm_ without error_if_nonfinite=True ({})"},
    {"/torchmetrics/", "create the metrics with validate_args=False and compute() them every 50 steps ({})"},
};
constexpr const char* kShapeRemedy =
    "avoid results whose size depends on the data ({}): in place of x[mask], nonzero() or unique(), multiply "
    "by "
    "the mask, use torch.where() or ignore_index";
constexpr size_t kOverflow = 0, kOwn = std::size(kReaders), kShape = kOwn + 1, kKinds = kShape + 1;

// The kernel that counts before an operation of unknown size returns (aten/src/ATen/native/cuda: Nonzero,
// UniqueCub).
bool counts_results(const std::string& kernel) {
  return std::ranges::any_of(std::initializer_list<const char*>{"NonZero", "nonzero", "unique", "Unique"},
                             [&](const char* part) { return kernel.find(part) != std::string::npos; });
}

struct Tally {
  double times = 0;
  std::string line;  // of the script, one of them
};

class Counter {
 public:
  explicit Counter(const RuleInput& input) : input_(input) {}

  void add(const HostEvent& event) {
    note(event);
    const model::Thread& thread = input_.process.threads[event.thread];
    const std::string* const stack = model::stack_of(input_.run, thread, thread.calls[event.call]);
    const auto frames = stack ? model::frames_of(*stack) : std::vector<model::StackFrame>();
    ++waits_;
    shapes_ += follows_count_;
    if (!stack) return;
    Tally& tally = tallies_[follows_count_ ? kShape : kind_of(frames)];
    ++tally.times;
    if (const model::StackFrame* line = model::users_frame(frames); line && tally.line.empty())
      tally.line = io::printable(line->location());
  }

  // What lies between two waits.
  void pass(const HostEvent& event) { note(event); }

  SyncReads reads() const {
    SyncReads result;
    result.has_own = share_of(kOwn) >= kLeastPart;
    std::vector<size_t> kinds;
    for (size_t kind = 0; kind < kKinds; ++kind)
      if (kind != kOwn && share_of(kind) >= kLeastPart) kinds.push_back(kind);
    std::ranges::sort(kinds, std::ranges::greater(), [&](size_t kind) { return share_of(kind); });
    result.has_shapes = std::ranges::find(kinds, kShape) != kinds.end();
    result.has_overflow = std::ranges::find(kinds, kOverflow) != kinds.end();
    for (const size_t kind : kinds)
      result.remedies.push_back(
          fmt::format(fmt::runtime(kind == kShape ? kShapeRemedy : kReaders[kind].remedy),
                      tallies_[kind].line.empty() ? "line not known" : tallies_[kind].line));
    return result;
  }

 private:
  // Short waits have no stack: whose they are, those of the others tell.
  double share_of(size_t kind) const {
    const double shape = waits_ > 0 ? shapes_ / waits_ : 0;
    if (kind == kShape) return shape;
    double with_stack = 0;
    for (size_t i = 0; i < kShape; ++i) with_stack += tallies_[i].times;
    if (with_stack <= 0) return kind == kOwn ? 1 - shape : 0;
    return (1 - shape) * tallies_[kind].times / with_stack;
  }

  static size_t kind_of(const std::vector<model::StackFrame>& frames) {
    for (const model::StackFrame& frame : frames) {
      if (model::is_users(frame)) break;
      for (size_t i = 0; i < std::size(kReaders); ++i)
        if (frame.file.find(kReaders[i].file) != std::string::npos) return i;
    }
    return kOwn;
  }

  void note(const HostEvent& event) {
    for (uint32_t i = event.first_op; i < event.first_op + event.op_count; ++i) {
      const model::DeviceOp& op = input_.device->operations[input_.streams->ops[i].device_op];
      if (op.kind != trace::RecordKind::Kernel || op.kernel >= input_.run.kernels.size()) continue;
      const std::string& name = input_.run.kernels[op.kernel].name;
      // Of many elements several blocks count, and one kernel more adds up.
      follows_count_ = counts_results(name) ||
                       (follows_count_ && name.find("DeviceReduceSingleTile") != std::string::npos);
    }
  }

  const RuleInput& input_;
  std::array<Tally, kKinds> tallies_;  // of waits with a stack
  double waits_ = 0, shapes_ = 0;
  bool follows_count_ = false;  // the last kernel counted what the next copy brings to the host
};

}  // namespace

SyncReads sync_reads(const RuleInput& input, const std::vector<SyncPlace>& places) {
  const predict::EventFilter waits = waits_at(places);
  Counter counter(input);
  for (const HostEvent& event : input.streams->events)
    waits(event) ? counter.add(event) : counter.pass(event);
  return counter.reads();
}

}  // namespace gpuwatch::advise
