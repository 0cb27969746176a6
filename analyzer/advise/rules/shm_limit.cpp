// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyzer/advise/machine.h"

namespace gpuwatch::advise {

extern const Rule kShmLimit;

namespace {

constexpr double kLeastUsed = 0.70;
constexpr double kGrowth = 4;

constexpr Threshold kThresholds[] = {
    {"/dev/shm used", kLeastUsed, "of its size",
     "one machine sample a second misses peaks, and one batch too many kills a worker with SIGBUS"},
};

std::optional<Finding> evaluate(const RuleInput& input) {
  const double size = number_fact(input.process, "shm_bytes");
  const bool has_workers =
      std::any_of(input.process.epochs.begin(), input.process.epochs.end(),
                  [](const model::LoaderEpoch& epoch) { return !epoch.workers.empty(); });
  double used = 0;
  for (const model::MachineSample& sample : input.process.machine_samples)
    used = std::max(used, double(sample.shm_used_bytes));
  if (size <= 0 || !has_workers || used < kLeastUsed * size) return std::nullopt;

  Finding finding = make_finding(kShmLimit, input, 0);
  const double wanted_gib = std::max(1.0, std::ceil(kGrowth * size / (1 << 30)));
  finding.title = fmt::format(
      "Shared memory: {:.0f} of {:.0f} MiB of /dev/shm are used, a larger batch would kill a worker",
      used / (1 << 20), size / (1 << 20));
  finding.evidence = {{"peak use of /dev/shm", used / (1 << 20), "MiB"},
                      {"size of /dev/shm", size / (1 << 20), "MiB"}};
  finding.fix.change = NamedChange{"shm-size", fmt::format("{:.0f}g", wanted_gib)};
  finding.fix.summary =
      fmt::format("Start the container with --shm-size={:.0f}g, or lower prefetch_factor", wanted_gib);
  if (const model::Loader* configured = input.configured_loader())
    finding.fix.location = configured->location;
  return finding;
}

}  // namespace

const Rule kShmLimit{
    "shm-limit",
    "/dev/shm, through which DataLoader workers send their batches, is nearly full. Docker's default size is "
    "64 MiB.",
    "The peak use of /dev/shm while workers ran, against its size. The fix promises no speedup, it prevents "
    "a worker from being killed with SIGBUS.",
    "`docker run --shm-size`, in Kubernetes an emptyDir with `medium: Memory` at /dev/shm, a lower "
    "`prefetch_factor`, or sharing through files elsewhere (`torch.multiprocessing.set_sharing_strategy`).",
    kThresholds,
    evaluate,
    {},
    true};

}  // namespace gpuwatch::advise
