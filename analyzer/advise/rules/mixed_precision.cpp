// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analyzer/advise/matrix_kernels.h"
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
    {"share of the step with a kernel running", kLeastBusy, "of the step",
     "below it the device waits for something else first"},
    {"products and convolutions in FP32 without tensor cores", kLeastShare, "of the step",
     "XProf's lower band, as elsewhere"},
    kLeastGain,
};

// What the device spent on products in the recorded steps.
struct Products {
  double fp32_ns = 0, on_tensor_cores_ns = 0, kernels_ns = 0;
  std::string longest;  // kernel in FP32 that took most time in all
  double longest_ns = 0;
  double share(const RuleInput& input) const {
    return fp32_ns / std::max(1.0, input.streams->measured_step_ms * 1e6 * double(input.streams->steps));
  }
};

// What each kernel computes with, by its name; read once, for there are a thousand launches to a kernel.
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

 private:
  const RuleInput& input_;
  std::vector<MatrixArithmetic> by_kernel_;
};

Products products_of(const RuleInput& input) {
  const KernelArithmetic arithmetics(input);
  Products products;
  std::map<std::string_view, double> by_name;
  for (const predict::StreamOp& op : input.streams->ops) {
    const model::DeviceOp& recorded = input.device->operations[op.device_op];
    if (recorded.kind == trace::RecordKind::Kernel) products.kernels_ns += op.duration_ns;
    const MatrixArithmetic arithmetic = arithmetics.of(op);
    if (arithmetic == MatrixArithmetic::kTensorCores) products.on_tensor_cores_ns += op.duration_ns;
    if (arithmetic != MatrixArithmetic::kFp32) continue;
    products.fp32_ns += op.duration_ns;
    by_name[input.run.kernels[recorded.kernel].name] += op.duration_ns;
  }
  for (const auto& [name, ns] : by_name)
    if (ns > products.longest_ns) products.longest = name, products.longest_ns = ns;
  return products;
}

// The recorded steps with products whose time is multiplied by what `left` says.
template <typename Left>
predict::StreamReplayInput with_products(const RuleInput& input, Left left) {
  const KernelArithmetic arithmetics(input);
  predict::StreamReplayInput changed = *input.assumed_streams;
  for (predict::StreamOp& op : changed.ops)
    if (arithmetics.of(op) == MatrixArithmetic::kFp32) op.duration_ns *= left(op);
  return changed;
}

// The recorded steps with products as much faster as the tensor cores' published rate: none gets faster by
// more, and those that wait for memory get faster by less. nullopt: not worth it. `times` 0: the rate is not
// known, and nothing is left of a product.
std::optional<double> ceiling(const RuleInput& input, const Products& products, double times) {
  const double left = times > 0 ? 1 / times : 0;
  const predict::StreamReplayInput changed =
      with_products(input, [left](const predict::StreamOp&) { return left; });
  const double now_ms = input.assumed_step_ms;
  // The host, copies or other kernels may be what is left of the step: then faster products gain little.
  if (now_ms < predict::replay(changed).step_ms * kLeastSpeedup) return std::nullopt;
  // No order of the work makes a step shorter by more than all that is saved. The replay knows better where
  // it is trusted; a ceiling holds where it is off by as much as it then may be.
  const double saved = products.share(input) * (1 - left);
  const double all_saved = 1 / (1 - std::min(saved, kMostShare));
  const auto replayed = stream_prediction(input, changed);
  return replayed ? std::min(all_saved, replayed->speedup.high * (1 + predict::kMostReplayError)) : all_saved;
}

// Between products that all reach the published rate and products whose blocks all wait for memory.
std::optional<predict::Prediction> prediction_in_tf32(const RuleInput& input, const TensorCores& cores) {
  const auto predicted = [&](double TimeLeft::*which) {
    return stream_prediction(input, with_products(input, [&](const predict::StreamOp& op) {
                               const model::Kernel& kernel =
                                   input.run.kernels[input.device->operations[op.device_op].kernel];
                               return time_left_in_tf32(kernel, op.duration_ns, *input.device, cores).*which;
                             }));
  };
  const auto best = predicted(&TimeLeft::at_best), worst = predicted(&TimeLeft::at_worst);
  auto prediction = best && worst ? predict::between(*best, *worst) : std::nullopt;
  if (prediction)
    prediction->assumptions.push_back(
        "products reach between what memory leaves a block that shares no operand and the published rate");
  return prediction;
}

// Fills in the fix in TF32, which changes products alone; false where the device has no faster TF32.
bool name_tf32(Finding& finding, const RuleInput& input, const Products& products,
               const std::optional<TensorCores>& cores) {
  if (input.device->compute_major < kFirstWithTf32) return false;
  finding.ceiling_speedup = ceiling(input, products, cores ? cores->tf32 : 0);
  if (!finding.ceiling_speedup) return false;
  const bool is_torch = input.process.facts.contains("torch");
  finding.fix.change = StreamChange{StreamEdit::kFasterKernels,
                                    is_torch ? "torch.set_float32_matmul_precision" : "cublasSetMathMode",
                                    is_torch ? "high" : "CUBLAS_TF32_TENSOR_OP_MATH"};
  finding.fix.summary =
      is_torch
          ? "torch.set_float32_matmul_precision(\"high\"): products in TF32; or torch.autocast(\"cuda\", "
            "dtype=torch.bfloat16) around forward and loss. Check that the loss still falls alike"
          : "cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH), or operands in bfloat16";
  finding.fix.snippet = is_torch ? "torch.set_float32_matmul_precision(\"high\")"
                                 : "cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH);";
  if (!cores) return true;
  finding.evidence.push_back({"published rate of the tensor cores in TF32", cores->tf32, "times FP32"});
  finding.prediction = prediction_in_tf32(input, *cores);
  return true;
}

bool name_half(Finding& finding, const RuleInput& input, const Products& products,
               const std::optional<TensorCores>& cores) {
  finding.ceiling_speedup = ceiling(input, products, cores ? cores->half : 0);
  if (!finding.ceiling_speedup) return false;
  const bool is_torch = input.process.facts.contains("torch");
  const bool has_bfloat16 = input.device->compute_major >= kFirstWithTf32;
  const std::string type = has_bfloat16 ? "bfloat16" : "float16";
  finding.fix.change =
      StreamChange{StreamEdit::kFasterKernels, is_torch ? "torch.autocast" : "operand type", type};
  const std::string autocast = fmt::format("torch.autocast(\"cuda\", dtype=torch.{})", type);
  if (!is_torch)
    finding.fix.summary = fmt::format("operands of products in {}, accumulated in FP32", type);
  else if (has_bfloat16)
    finding.fix.summary = autocast + " around forward and loss; check that the loss still falls alike";
  else
    finding.fix.summary = autocast +
                          " around forward and loss, with torch.amp.GradScaler(\"cuda\") for the "
                          "gradients; check that the loss still falls alike";
  if (is_torch) finding.fix.snippet = "with " + autocast + ": loss = criterion(model(x), y)";
  if (cores)
    finding.evidence.push_back({"published rate of the tensor cores in " + type, cores->half, "times FP32"});
  return true;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (!input.streams || !input.device || input.device->compute_major < kFirstWithTensorCores)
    return std::nullopt;
  if (input.rank.share(Category::Compute) < kLeastBusy) return std::nullopt;
  const Products products = products_of(input);
  const double share = products.share(input);
  if (share < kLeastShare) return std::nullopt;

  Finding finding = make_finding(kMixedPrecision, input, 0);
  finding.evidence = {{"products in FP32 without tensor cores", 100 * share, "% of the step"},
                      {"of them by " + products.longest, 100 * products.longest_ns / products.fp32_ns, "%"},
                      {"products on tensor cores", 100 * products.on_tensor_cores_ns / products.kernels_ns,
                       "% of the kernel time"}};
  const auto cores = tensor_cores(*input.device);
  if (!name_tf32(finding, input, products, cores) && !name_half(finding, input, products, cores))
    return std::nullopt;
  finding.title =
      fmt::format("The device multiplies matrices in FP32, {:.0f} % of the step, and has tensor cores for it",
                  100 * share);
  finding.lost_share = 1 - 1 / *finding.ceiling_speedup;
  if (finding.prediction) finding.ceiling_speedup.reset();
  finding.severity = make_finding(kMixedPrecision, input, finding.lost_share).severity;
  return finding;
}

}  // namespace

const Rule kMixedPrecision{
    "mixed-precision",
    "Matrix products and convolutions run in FP32 without tensor cores, which the device has.",
    "Kernels whose names are those of cuBLAS, cuDNN and CUTLASS for FP32 arithmetic (`sgemm`, `scudnn`, "
    "`gemm_f32f32_f32f32`) take a relevant share of a step in which the device is busy, on compute "
    "capability 7.0 or later; products in TF32, bfloat16 and float16 have other names. Where the host or "
    "other work limits the step, the replay with faster products is no faster. What TF32 leaves of a product "
    "is between the published rate of the tensor cores and what memory allows blocks that fetch all their "
    "operands (tiles as in the kernel's name; without one it may gain nothing); how near real kernels come "
    "to either has been measured on no device yet.",
    "`torch.set_float32_matmul_precision(\"high\")` (TF32) or `torch.autocast` in bfloat16 on compute "
    "capability 8.0 and later, `torch.autocast` in float16 with `GradScaler` on 7.x. It changes results: "
    "check that the loss still falls alike. The prediction is that of TF32, which changes products alone; "
    "half precision moves fewer bytes as well and adds conversions: it has a ceiling.",
    kThresholds,
    evaluate};

}  // namespace gpuwatch::advise
