// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "analyzer/advise/remedy_words.h"
#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

extern const Rule kGpuUnused;

namespace {

std::string fact(const model::Process& process, const char* key) {
  auto found = process.facts.find(key);
  return found == process.facts.end() ? "" : found->second;
}

// Why the GPU was not used; the reason determines the fix.
void name_reason(Finding& finding, const model::Process& process) {
  const std::string torch = speaks_torch(process) ? fact(process, "torch") : "";
  std::string visible = fact(process, "CUDA_VISIBLE_DEVICES");
  if (torch.find("+cpu") != std::string::npos) {
    finding.fix.change = NamedChange{"torch", "a CUDA build"};
    finding.fix.summary = fmt::format("Install a CUDA build of PyTorch ({} is CPU-only)", torch);
  } else if (process.facts.contains("CUDA_VISIBLE_DEVICES") && (visible.empty() || visible[0] == '-')) {
    finding.fix.change = NamedChange{"CUDA_VISIBLE_DEVICES", ""};
    finding.fix.summary = fmt::format("Unset CUDA_VISIBLE_DEVICES (\"{}\" hides every GPU)", visible);
  } else if (auto words = remedy_words(process, Remedy::kUseGpu)) {
    finding.fix.change = NamedChange{std::move(words->setting), std::move(words->value)};
    finding.fix.summary = std::move(words->summary);
    finding.fix.snippet = std::move(words->snippet);
  } else {
    finding.fix.change = NamedChange{"device", "cuda"};
    finding.fix.summary = "Move the model and each batch to the GPU with .to(\"cuda\")";
    finding.fix.snippet = "model.to(\"cuda\"); x, y = x.to(\"cuda\"), y.to(\"cuda\")";
  }
}

std::optional<Finding> evaluate(const RuleInput& input) {
  if (input.rank.device != model::kNone || input.rank.time(attribute::Category::DeviceUnobserved) > 0)
    return std::nullopt;
  std::string gpus = fact(input.process, "gpus");
  if (gpus.empty() || gpus == "0") return std::nullopt;
  double compute = input.rank.share(attribute::Category::Compute);
  Finding finding = make_finding(kGpuUnused, input, compute);
  finding.is_of_set_up = true;
  finding.title = fmt::format(
      "Unused GPU: the job computes on the CPU for {:.0f}% of each step, and the machine has a GPU",
      100 * compute);
  finding.evidence = {{"NVIDIA GPUs", std::strtod(gpus.c_str(), nullptr), "on this machine"},
                      {"CPU compute", 100 * compute, "% of the step"}};
  name_reason(finding, input.process);
  // An upper bound: compute takes no time on the GPU, everything else stays.
  if (compute < 1) finding.ceiling_speedup = 1 / std::max(1 - compute, 0.01);
  return finding;
}

}  // namespace

const Rule kGpuUnused{"gpu-unused",
                      "The job computes on the CPU although the machine has a GPU.",
                      "Training steps without any CUDA call, on a machine with NVIDIA devices.",
                      "Depends on the reason: install a CUDA build of the framework, unset "
                      "`CUDA_VISIBLE_DEVICES`, or add the missing `.to(\"cuda\")`.",
                      {},
                      evaluate,
                      {attribute::Category::Compute}};

}  // namespace gpuwatch::advise
