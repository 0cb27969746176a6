// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/advise/matrix_kernels.h"
#include "analyzer/advise/ranking.h"
#include "analyzer/advise/remedy_words.h"
#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

extern const Rule kMixedPrecision;

namespace {

using attribute::Category;

constexpr double kLeastBusy = 0.50;
constexpr double kLeastShare = 0.05;
constexpr double kMostShare = 0.99;
constexpr int kFirstWithTensorCores = 7, kFirstWithTf32 = 8;

constexpr Threshold kThresholds[] = {
    {"time with a kernel running", kLeastBusy, "of the step",
     "below it something other than the GPU is the bottleneck"},
    {"FP32 matmuls and convolutions without tensor cores", kLeastShare, "of the step", "XProf's lower band"},
    kLeastGain,
};

// GPU time of matmuls in the recorded steps.
struct Matmuls {
  double fp32_ns = 0, tensor_core_ns = 0, kernels_ns = 0;
  double others_ns = 0;  // kernels of the model that are no matmul
  std::string longest;   // the FP32 kernel that took the most time in total
  double longest_ns = 0;
  double share(const RuleInput& input) const { return fp32_ns / steps_ns(input); }
  double share_of_others(const RuleInput& input) const { return others_ns / steps_ns(input); }
  static double steps_ns(const RuleInput& input) {
    return std::max(1.0, input.streams->measured_step_ms * 1e6 * double(input.streams->steps));
  }
};

// The arithmetic of each kernel, by its name. Names are read once: a kernel has thousands of launches.
class KernelArithmetic {
 public:
  explicit KernelArithmetic(const RuleInput& input) : input_(input) {
    for (const model::Kernel& kernel : input.run.kernels)
      by_kernel_.push_back(matrix_arithmetic(kernel.name));
  }

  MatrixArithmetic of(const predict::StreamOp& op) const {
    const model::DeviceOp& recorded = input_.device->operations[op.device_op];
    if (recorded.kind != trace::RecordKind::Kernel || recorded.kernel >= by_kernel_.size())
      return MatrixArithmetic::kOther;
    return by_kernel_[recorded.kernel];
  }

  // Of the model, and no matmul: in half precision it may move half of the bytes. Optimizers stay in FP32.
  bool is_other_work(const predict::StreamOp& op) const {
    const model::DeviceOp& recorded = input_.device->operations[op.device_op];
    return recorded.kind == trace::RecordKind::Kernel && !op.is_of_optimizer &&
           of(op) == MatrixArithmetic::kOther;
  }

 private:
  const RuleInput& input_;
  std::vector<MatrixArithmetic> by_kernel_;
};

Matmuls matmuls_of(const RuleInput& input) {
  const KernelArithmetic arithmetics(input);
  Matmuls matmuls;
  std::map<std::string_view, double> by_name;
  for (const predict::StreamOp& op : input.streams->ops) {
    const model::DeviceOp& recorded = input.device->operations[op.device_op];
    if (recorded.kind == trace::RecordKind::Kernel) matmuls.kernels_ns += op.duration_ns;
    const MatrixArithmetic arithmetic = arithmetics.of(op);
    if (arithmetics.is_other_work(op)) matmuls.others_ns += op.duration_ns;
    if (arithmetic == MatrixArithmetic::kTensorCores) matmuls.tensor_core_ns += op.duration_ns;
    if (arithmetic != MatrixArithmetic::kFp32) continue;
    matmuls.fp32_ns += op.duration_ns;
    by_name[input.run.kernels[recorded.kernel].name] += op.duration_ns;
  }
  for (const auto& [name, ns] : by_name)
    if (ns > matmuls.longest_ns) matmuls.longest = name, matmuls.longest_ns = ns;
  return matmuls;
}

// The recorded steps with the duration of each FP32 matmul multiplied by `left`, of other work of the model
// by `others_left`.
template <typename Left>
predict::StreamReplayInput with_matmuls(const RuleInput& input, Left left, double others_left = 1) {
  const KernelArithmetic arithmetics(input);
  predict::StreamReplayInput changed = *input.assumed_streams;
  for (predict::StreamOp& op : changed.ops) {
    if (arithmetics.of(op) == MatrixArithmetic::kFp32)
      op.duration_ns *= left(op);
    else if (arithmetics.is_other_work(op))
      op.duration_ns *= others_left;
  }
  return changed;
}

// Upper bound of the speedup: each FP32 matmul gets faster by the tensor cores' published rate, which none
// exceeds and memory-bound ones do not reach. nullopt: not worth it. `times` 0: the rate is not known, and
// matmuls are assumed to take no time.
std::optional<double> ceiling(const RuleInput& input, const Matmuls& matmuls, double times,
                              double others_left) {
  const double left = times > 0 ? 1 / times : 0;
  const predict::StreamReplayInput changed = with_matmuls(
      input, [left](const predict::StreamOp&) { return left; }, others_left);
  const double now_ms = input.assumed_step_ms;
  // The host, copies or other kernels may limit the step as much: then faster matmuls gain little.
  if (now_ms < predict::replay(changed).step_ms * kLeastSpeedup) return std::nullopt;
  // A step gets shorter by at most the matmul time that is saved. The replay, where it is trusted, gives a
  // tighter bound. Its largest tolerated error is added, so that it stays an upper bound.
  const double saved = matmuls.share(input) * (1 - left) + matmuls.share_of_others(input) * (1 - others_left);
  const double all_saved = 1 / (1 - std::min(saved, kMostShare));
  const auto replayed = stream_prediction(input, changed);
  return replayed ? std::min(all_saved, replayed->speedup.high * (1 + predict::kMostReplayError)) : all_saved;
}

// Between matmuls at the tensor cores' published rate and memory-bound matmuls.
std::optional<predict::Prediction> prediction_in_tf32(const RuleInput& input, const TensorCores& cores) {
  const auto predicted = [&](double TimeLeft::*which) {
    return stream_prediction(input, with_matmuls(input, [&](const predict::StreamOp& op) {
                               const model::Kernel& kernel =
                                   input.run.kernels[input.device->operations[op.device_op].kernel];
                               return time_left_in_tf32(kernel, op.duration_ns, *input.device, cores).*which;
                             }));
  };
  const auto best = predicted(&TimeLeft::at_best), worst = predicted(&TimeLeft::at_worst);
  auto prediction = best && worst ? predict::between(*best, *worst) : std::nullopt;
  if (prediction)
    prediction->assumptions.emplace_back(
        "TF32 matmuls run between the tensor cores' published rate and the memory bandwidth limit of blocks "
        "that share no inputs");
  return prediction;
}

void name_remedy(Finding& finding, RemedyWords words) {
  finding.fix.change =
      StreamChange{StreamEdit::kFasterKernels, std::move(words.setting), std::move(words.value)};
  finding.fix.summary = std::move(words.summary);
  finding.fix.snippet = std::move(words.snippet);
}

// Fills in the fix with TF32, which changes matmuls only. False: TF32 is no faster on this device.
bool name_tf32(Finding& finding, const RuleInput& input, const Matmuls& matmuls,
               const std::optional<TensorCores>& cores) {
  if (input.device->compute_major < kFirstWithTf32) return false;
  finding.ceiling_speedup = ceiling(input, matmuls, cores ? cores->tf32 : 0, 1);
  if (!finding.ceiling_speedup) return false;
  const bool is_torch = speaks_torch(input.process);
  finding.fix.change = StreamChange{StreamEdit::kFasterKernels,
                                    is_torch ? "torch.set_float32_matmul_precision" : "cublasSetMathMode",
                                    is_torch ? "high" : "CUBLAS_TF32_TENSOR_OP_MATH"};
  finding.fix.summary =
      is_torch ? "Call torch.set_float32_matmul_precision(\"high\") for TF32 matmuls, and check that the "
                 "loss still converges"
               : "Call cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH), or use bfloat16 matrices";
  finding.fix.snippet = is_torch ? "torch.set_float32_matmul_precision(\"high\")"
                                 : "cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH);";
  if (auto words = remedy_words(input.process, Remedy::kTf32)) name_remedy(finding, std::move(*words));
  if (!cores) return true;
  finding.evidence.push_back({"published tensor core rate in TF32", cores->tf32, "x FP32"});
  finding.prediction = prediction_in_tf32(input, *cores);
  return true;
}

constexpr double kHalfOfTheBytes = 0.5;

// And not by other kernels, which may move half of the bytes: with matmuls in 11% of a step "up to 2.2x" came
// before convolutions whose algorithms were searched in each step.
bool gains_most_by_matmuls(const RuleInput& input, const Matmuls& matmuls,
                           const std::optional<TensorCores>& cores) {
  const double left = cores ? 1 / cores->half : 0;
  return matmuls.share(input) * (1 - left) >= matmuls.share_of_others(input) * (1 - kHalfOfTheBytes);
}

bool name_half(Finding& finding, const RuleInput& input, const Matmuls& matmuls,
               const std::optional<TensorCores>& cores) {
  finding.ceiling_speedup = ceiling(input, matmuls, cores ? cores->half : 0, kHalfOfTheBytes);
  if (!finding.ceiling_speedup) return false;
  const bool is_torch = speaks_torch(input.process);
  const bool has_bfloat16 = input.device->compute_major >= kFirstWithTf32;
  const std::string type = has_bfloat16 ? "bfloat16" : "float16";
  const char* setting = is_torch ? "torch.autocast" : "operand type";  // words: ok, fix.setting in JSON
  finding.fix.change = StreamChange{StreamEdit::kFasterKernels, setting, type};
  const std::string autocast = fmt::format("torch.autocast(\"cuda\", dtype=torch.{})", type);
  if (!is_torch)
    finding.fix.summary = fmt::format("Run matmuls in {} with FP32 accumulation", type);
  else
    finding.fix.summary =
        fmt::format("Wrap forward and loss in {}{}, and check that the loss still converges", autocast,
                    has_bfloat16 ? "" : " with torch.amp.GradScaler(\"cuda\")");
  if (is_torch) finding.fix.snippet = "with " + autocast + ": loss = criterion(model(x), y)";
  if (auto words = remedy_words(input.process, Remedy::kHalfPrecision, type))
    name_remedy(finding, std::move(*words));
  if (cores) finding.evidence.push_back({"published tensor core rate in " + type, cores->half, "x FP32"});
  return true;
}

// Of the bound and the prediction of a remedy.
void settle(Finding& finding, const RuleInput& input) {
  finding.lost_share = 1 - 1 / *finding.ceiling_speedup;
  if (finding.prediction) finding.ceiling_speedup.reset();
  finding.severity = make_finding(kMixedPrecision, input, finding.lost_share).severity;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (!input.streams || !input.device || !input.device->is_nvidia() ||
      input.device->compute_major < kFirstWithTensorCores)
    return std::nullopt;
  if (input.rank.share(Category::Compute) < kLeastBusy) return std::nullopt;
  const Matmuls matmuls = matmuls_of(input);
  const double share = matmuls.share(input);
  if (share < kLeastShare) return std::nullopt;

  Finding finding = make_finding(kMixedPrecision, input, 0);
  finding.evidence = {
      {"FP32 matmuls without tensor cores", 100 * share, "% of the step"},
      {"GPU compute", 100 * input.rank.share(Category::Compute), "% of the step"},
      {"largest kernel, " + matmuls.longest, 100 * matmuls.longest_ns / matmuls.fp32_ns,
       "% of the FP32 matmul time"},
      {"matmuls on tensor cores", 100 * matmuls.tensor_core_ns / matmuls.kernels_ns, "% of the kernel time"}};
  finding.title =
      fmt::format("FP32 matmuls: {:.0f}% of each step runs without the GPU's tensor cores", 100 * share);
  const auto cores = tensor_cores(*input.device);
  // Where tensor cores take half of the time in TF32, a range of 0.97 to 1.23 times is not worth naming; half
  // precision gained 1.45.
  Finding in_tf32 = finding;
  if (name_tf32(in_tf32, input, matmuls, cores)) {
    settle(in_tf32, input);
    if (is_worth_naming(input, in_tf32)) return in_tf32;
    if (!gains_most_by_matmuls(input, matmuls, cores)) return std::nullopt;
  }
  if (!name_half(finding, input, matmuls, cores)) return std::nullopt;
  settle(finding, input);
  return finding;
}

}  // namespace

const Rule kMixedPrecision{
    "mixed-precision",
    "Matmuls and convolutions run in FP32 without tensor cores, although the GPU has them.",
    "The GPU is busy, and kernels with FP32 names of cuBLAS, cuDNN or CUTLASS (`sgemm`, `scudnn`, "
    "`gemm_f32f32_f32f32`) take a relevant share of the step on compute capability 7.0 or later. Matmuls in "
    "TF32, bfloat16 and float16 have other names. Where the host or other work limits the step, the "
    "simulated replay with faster matmuls is no faster. A TF32 matmul takes a time between the published "
    "rate of the tensor cores and the memory bandwidth limit of thread blocks that load all their inputs "
    "(tile size from the kernel's name; without one it may gain nothing). How close real kernels come to "
    "either has not been measured yet.",
    "`torch.set_float32_matmul_precision(\"high\")` (TF32) or `torch.autocast` in bfloat16 on compute "
    "capability 8.0 and later, `torch.autocast` in float16 with `GradScaler` on 7.x; in TensorFlow "
    "`tf.keras.mixed_precision`, in JAX `jax_default_matmul_precision` or `jnp.bfloat16`. Convolutions use "
    "TF32 "
    "unless `torch.backends.cudnn.allow_tf32` is off. This changes results: check that the loss still "
    "converges. The prediction is for TF32, which changes matmuls only. Half precision also moves half of "
    "the bytes in other kernels and adds conversions, so only an upper bound is given.",
    kThresholds,
    evaluate,
    {attribute::Category::Compute}};

}  // namespace gpuwatch::advise
