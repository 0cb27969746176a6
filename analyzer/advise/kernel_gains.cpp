// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/kernel_gains.h"

#include <algorithm>
#include <array>
#include <map>

#include "analyzer/advise/matrix_kernels.h"
#include "analyzer/advise/remedy_words.h"
#include "analyzer/attribute/device_work.h"

namespace gpuwatch::advise {
namespace {

using attribute::GroupTime;
using attribute::kNoGroup;
using model::DeviceOp;
using model::KernelClass;
using trace::OpClass;

constexpr double kMostShare = 0.99;
constexpr size_t kAttentionReach = 6;  // scale, mask, cast, dropout and their kin between matmul and softmax

// What one change concerns.
enum Part : uint16_t {
  kFp64,
  kFp32,
  kUnfusedAttention,
  kFusable,
  kLayout,
  kOptimizerLoop,
  kOptimizerForeach,
  kDeviceCopies,
  kRest,
  kParts
};

// Inductor makes one kernel of such a run (torch/_inductor: pointwise and reduction nodes are fused).
bool is_fusable(KernelClass kernel_class) {
  return kernel_class == KernelClass::kElementwise || kernel_class == KernelClass::kTensorCopy ||
         kernel_class == KernelClass::kReduction || kernel_class == KernelClass::kNormalization ||
         kernel_class == KernelClass::kSoftmax;
}

bool is_pointwise(KernelClass kernel_class) {
  return kernel_class == KernelClass::kElementwise || kernel_class == KernelClass::kTensorCopy;
}

// One kernel for all of the optimizer's arithmetic on a list of tensors: PyTorch's fused=True, apex.
bool is_fused_optimizer(std::string_view name) {
  for (const char* part : {"Adam", "Fused", "fused", "Lamb", "LAMB", "Sgd", "Adagrad"})
    if (name.find(part) != std::string_view::npos) return true;
  return false;
}

// Assigns each operation of the device to a part.
class Parts {
 public:
  explicit Parts(const RuleInput& input)
      : input_(input),
        operations_(input.device->operations),
        classes_(attribute::classes_of(input.run, *input.device)),
        parts_(operations_.size(), kNoGroup) {
    collect_optimizer_steps();
    for (size_t i = 0; i < operations_.size(); ++i) assign(i);
    for (const auto& [stream, kernels] : by_stream()) {
      find_attention(kernels);
      find_chains(kernels);
    }
  }

  const std::vector<uint16_t>& of_operations() const { return parts_; }

 private:
  using Indices = std::vector<size_t>;

  KernelClass class_at(size_t i) const { return static_cast<KernelClass>(classes_[i]); }

  void collect_optimizer_steps() {
    for (uint32_t t = 0; t < input_.process.threads.size(); ++t)
      for (const model::HostCall& call : input_.process.threads[t].calls)
        if (call.op_class == OpClass::OptimizerStep) optimizer_steps_[t].push_back({call.begin, call.end});
  }

  bool is_of_optimizer(const DeviceOp& op) const {
    const auto steps = optimizer_steps_.find(op.launch_thread);
    if (steps == optimizer_steps_.end()) return false;
    const auto& calls = input_.process.threads[op.launch_thread].calls;
    if (op.launch_call >= calls.size()) return false;
    const model::Ns time = calls[op.launch_call].begin;
    const auto after = std::ranges::upper_bound(steps->second, time, {}, &model::TimeSpan::begin);
    return after != steps->second.begin() && time < std::prev(after)->end;
  }

  void assign(size_t i) {
    if (classes_[i] == kNoGroup) return;
    parts_[i] = part_of(operations_[i], class_at(i));
  }

  Part part_of(const DeviceOp& op, KernelClass kernel_class) const {
    const std::string_view name =
        op.kernel < input_.run.kernels.size() ? std::string_view(input_.run.kernels[op.kernel].name) : "";
    if (kernel_class == KernelClass::kOptimizer)
      return is_of_optimizer(op) && !is_fused_optimizer(name) ? kOptimizerForeach : kRest;
    if ((is_pointwise(kernel_class) || kernel_class == KernelClass::kReduction) && is_of_optimizer(op))
      return kOptimizerLoop;
    if (kernel_class == KernelClass::kLayout) return kLayout;
    if (kernel_class == KernelClass::kDeviceCopy && op.kind == trace::RecordKind::CopyD2D)
      return kDeviceCopies;
    if (kernel_class != KernelClass::kMatmul && kernel_class != KernelClass::kConvolution) return kRest;
    switch (matmul_precision(name)) {
      case MatmulPrecision::kFp64:
        return kFp64;
      case MatmulPrecision::kFp32:
        return kFp32;
      default:
        return kRest;
    }
  }

  // Kernels of each stream in their order. What is of an optimizer ends a chain.
  std::map<uint16_t, Indices> by_stream() const {
    std::map<uint16_t, Indices> streams;
    for (size_t i = 0; i < operations_.size(); ++i)
      if (operations_[i].kind == trace::RecordKind::Kernel && parts_[i] != kNoGroup)
        streams[operations_[i].stream].push_back(i);
    return streams;
  }

  // Softmax between two matmuls, with nothing but pointwise kernels in between.
  void find_attention(const Indices& kernels) {
    for (size_t at = 0; at < kernels.size(); ++at) {
      if (class_at(kernels[at]) != KernelClass::kSoftmax) continue;
      size_t first = at, last = at + 1;
      while (first > 0 && at - first < kAttentionReach && is_pointwise(class_at(kernels[first - 1]))) --first;
      while (last < kernels.size() && last - at <= kAttentionReach && is_pointwise(class_at(kernels[last])))
        ++last;
      const bool is_between = first > 0 && class_at(kernels[first - 1]) == KernelClass::kMatmul &&
                              last < kernels.size() && class_at(kernels[last]) == KernelClass::kMatmul;
      for (size_t i = first; is_between && i < last; ++i) parts_[kernels[i]] = kUnfusedAttention;
    }
  }

  // All but the shortest kernel of each run.
  void find_chains(const Indices& kernels) {
    for (size_t begin = 0; begin < kernels.size();) {
      size_t end = begin;
      while (end < kernels.size() && parts_[kernels[end]] == kRest && is_fusable(class_at(kernels[end])))
        ++end;
      if (end - begin >= 2) mark_chain(kernels, begin, end);
      begin = std::max(end, begin + 1);
    }
  }

  void mark_chain(const Indices& kernels, size_t begin, size_t end) {
    const auto length = [&](size_t i) { return operations_[i].end - operations_[i].begin; };
    const auto first = kernels.begin() + std::ptrdiff_t(begin), last = kernels.begin() + std::ptrdiff_t(end);
    const auto shortest = std::ranges::min_element(first, last, {}, length);
    for (auto i = first; i != last; ++i)
      if (i != shortest) parts_[*i] = kFusable;
  }

  const RuleInput& input_;
  const std::vector<DeviceOp>& operations_;
  std::vector<uint16_t> classes_, parts_;
  std::map<uint32_t, std::vector<model::TimeSpan>> optimizer_steps_;  // by thread, in time order
};

std::optional<double> without(double share) {
  return 1 / (1 - std::clamp(share, 0.0, kMostShare));
}

// How a part is named, and what one would change; bounds are filled in by gain_of().
struct PartWords {
  Part part;
  const char *what, *torch_change, *other_change;
  const char* reason;  // null: no bound can be derived
};
constexpr PartWords kPartWords[] = {
    {kFp64, "FP64 matmuls", "use float32 where the accuracy allows it",
     "use single precision where the accuracy allows it",
     "single precision is at most 64x as fast on any GPU"},
    {kFp32, "FP32 matmuls without tensor cores", "run matmuls in half precision",
     "run matmuls in half precision", "tensor cores reach at most their published rate"},
    {kUnfusedAttention, "softmax and masks of unfused attention", "use scaled_dot_product_attention",
     "use a fused attention kernel", nullptr},
    {kFusable, "kernels in a row that could be one", "use torch.compile", "fuse kernels",
     "what is fused still takes as long as its shortest kernel"},
    {kLayout, "layout transposes", "use memory_format=torch.channels_last",
     "keep tensors in the layout that convolutions take (NHWC)", "at most the transposes disappear"},
    {kOptimizerLoop, "optimizer that loops over parameters", "set fused=True in the optimizer",
     "update all parameters in one kernel", "at most these kernels disappear"},
    {kOptimizerForeach, "optimizer of several multi-tensor kernels", "set fused=True in the optimizer",
     "update all parameters in one kernel", "at most these kernels disappear"},
    {kDeviceCopies, "copies within the GPU", "avoid torch.cat, clone() and contiguous() in the step",
     "write results where they are needed", "at most the copies disappear"},
};

// CUDA programming guide, arithmetic throughput: 128 FP32 results a clock and multiprocessor beside 2 FP64
// ones at compute capability 8.6 and 8.9, less of a difference elsewhere.
constexpr double kMostSingleRate = 64;

// Published rate of tensor cores over that without them; 0: not known.
double half_rate(const RuleInput& input) {
  const auto cores = tensor_cores(*input.device);
  return cores && cores->half > 1 ? cores->half : 0;
}

KernelGain gain_of(const RuleInput& input, const PartWords& words, const GroupTime& time) {
  const double wall = double(std::max<model::Ns>(1, input.rank.wall_ns));
  const double alone = double(time.alone_ns) / wall;
  KernelGain gain{.what = words.what,
                  .share = double(time.ns) / wall,
                  .change = is_torch_job(input.process) ? words.torch_change : words.other_change,
                  .bound = std::nullopt,
                  .reason = {}};
  if (words.part == kFp32) {
    const double rate = half_rate(input);
    if (rate > 0) gain.bound = without(alone * (1 - 1 / rate));
  } else if (words.part == kFp64) {
    gain.bound = without(alone * (1 - 1 / kMostSingleRate));
  } else if (words.reason) {
    gain.bound = without(alone);
  }
  if (gain.bound) gain.reason = words.reason;
  return gain;
}

// Of all named parts together; `kept`: what is left of them at best, of the step.
std::optional<double> bound_of_all(const RuleInput& input, std::vector<uint16_t> parts,
                                   const std::array<bool, kParts>& is_named, double kept) {
  for (uint16_t& part : parts)
    if (part != kNoGroup) part = is_named[part] ? 0 : 1;
  const auto times = attribute::group_times(*input.device, input.rank, parts, 2);
  return without(double(times[0].alone_ns) / double(std::max<model::Ns>(1, input.rank.wall_ns)) - kept);
}

}  // namespace

bool is_torch_job(const model::Process& process) {
  return speaks_torch(process) || process.imported_from == "torch.profiler";
}

KernelGains kernel_gains(const RuleInput& input) {
  KernelGains gains;
  if (!input.device || input.rank.wall_ns <= 0) return gains;
  const Parts parts(input);
  const auto times = attribute::group_times(*input.device, input.rank, parts.of_operations(), kParts);
  std::array<bool, kParts> is_named{};
  double kept = 0;
  for (const PartWords& words : kPartWords) {
    KernelGain gain = gain_of(input, words, times[words.part]);
    if (gain.share < kLeastKernelShare) continue;
    if (words.part == kFp64) gains.double_share = gain.share;
    is_named[words.part] = true;
    if (words.part == kFp32 && gain.bound)
      kept += double(times[kFp32].alone_ns) / double(input.rank.wall_ns) / half_rate(input);
    if (words.part == kFp64)
      kept += double(times[kFp64].alone_ns) / double(input.rank.wall_ns) / kMostSingleRate;
    gains.parts.push_back(std::move(gain));
  }
  std::ranges::stable_sort(gains.parts, [](const KernelGain& a, const KernelGain& b) {
    return std::pair(a.bound.value_or(1), a.share) > std::pair(b.bound.value_or(1), b.share);
  });
  const bool has_bounds =
      std::ranges::all_of(gains.parts, [](const KernelGain& gain) { return gain.bound.has_value(); });
  if (!gains.parts.empty() && has_bounds)
    gains.bound = bound_of_all(input, parts.of_operations(), is_named, kept);
  return gains;
}

}  // namespace gpuwatch::advise
