// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

extern const Rule kGpuUnused;

namespace {

std::string fact(const model::Process& process, const char* key) {
  auto found = process.facts.find(key);
  return found == process.facts.end() ? "" : found->second;
}

// Why a GPU that is there was not used; the exact reason is the fix.
void name_reason(Finding& finding, const model::Process& process) {
  std::string torch = fact(process, "torch");
  std::string visible = fact(process, "CUDA_VISIBLE_DEVICES");
  if (torch.find("+cpu") != std::string::npos) {
    finding.fix.change = NamedChange{"torch", "a CUDA build"};
    finding.fix.summary =
        fmt::format("install a CUDA build of PyTorch ({} is built for the CPU only)", torch);
  } else if (process.facts.contains("CUDA_VISIBLE_DEVICES") && (visible.empty() || visible[0] == '-')) {
    finding.fix.change = NamedChange{"CUDA_VISIBLE_DEVICES", ""};
    finding.fix.summary =
        fmt::format("unset CUDA_VISIBLE_DEVICES (it is \"{}\" and hides every GPU)", visible);
  } else {
    finding.fix.change = NamedChange{"device", "cuda"};
    finding.fix.summary = "move model and batches to the GPU: .to(\"cuda\")";
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
  finding.title = "A GPU is installed, and the job computes on the CPU";
  finding.evidence = {{"NVIDIA GPUs on this machine", std::strtod(gpus.c_str(), nullptr), ""},
                      {"computing on the CPU", 100 * compute, "% of the step"}};
  name_reason(finding, input.process);
  // What is not computing would remain as it is; how fast the GPU computes is not known here.
  if (compute < 1) finding.ceiling_speedup = 1 / std::max(1 - compute, 0.01);
  return finding;
}

}  // namespace

const Rule kGpuUnused{"gpu-unused",
                      "The job computes on the CPU although the machine has a GPU.",
                      "Training steps without any CUDA call, and NVIDIA devices on the machine.",
                      "The exact reason: a CPU-only build of the framework, `CUDA_VISIBLE_DEVICES`, or a "
                      "missing `.to(\"cuda\")`.",
                      {},
                      evaluate};

}  // namespace gpuwatch::advise
