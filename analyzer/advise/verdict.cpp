// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "analyzer/advise/diagnose.h"
#include "analyzer/io/printable.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using attribute::Group;
using attribute::RankAttribution;

constexpr size_t kLeastSteps = 5;
constexpr double kBound = 0.05;  // XProf's lower band: below it a job is not bound by this

struct Loss {
  const char* id;
  const char* heading;
  const char* words;  // after "the GPU waits 58 % of each step ..."
  double share;
};

double copy_share(const RankAttribution& rank) {
  return rank.share(Category::CopyH2D) + rank.share(Category::CopyD2H) + rank.share(Category::CopyD2D) +
         rank.share(Category::CopyStaging);
}

double comm_share(const RankAttribution& rank) {
  return rank.share(Category::CommTransfer) + rank.share(Category::CommWaitPeer) +
         rank.share(Category::CommUnsplit) + rank.share(Category::CommHost);
}

Loss largest_loss(const RankAttribution& rank) {
  double copies = copy_share(rank), comm = comm_share(rank), input = rank.share(Group::Input);
  double host = rank.share(Group::Host) - rank.share(Category::CopyStaging) - rank.share(Category::CommHost) +
                rank.share(Category::DeviceLaunchGap);
  Loss losses[] = {{"input-bound", "INPUT-BOUND", "for data", input},
                   {"host-bound", "HOST-BOUND", "for the host", host},
                   {"copy-bound", "COPY-BOUND", "on copies", copies},
                   {"comm-bound", "COMM-BOUND", "on communication", comm}};
  return *std::max_element(std::begin(losses), std::end(losses),
                           [](const Loss& a, const Loss& b) { return a.share < b.share; });
}

const char* waiter(const RankAttribution& rank) {
  return rank.device == model::kNone ? "training" : "the GPU";
}

Verdict bound_by(const RankAttribution& rank, const Loss& loss) {
  double step = rank.mean_step_ms();
  const char* verb = loss.share == copy_share(rank) || loss.share == comm_share(rank) ? "spends" : "waits";
  return {loss.id,
          fmt::format("{}: {} {} {:.0f} % of each step {} ({:.4g} of {:.4g} ms)", loss.heading, waiter(rank),
                      verb, 100 * loss.share, loss.words, loss.share * step, step),
          loss.share < 1 ? 1 / (1 - loss.share) : 1};
}

Verdict without_steps(const model::Run& run) {
  for (const model::Process& process : run.processes)
    if (process.is_rank())
      return {
          "no-training",
          "NO TRAINING SEEN: " + io::printable(process.script.empty() ? process.executable : process.script) +
              " ran, but no repeated step was found in what it did",
          1};
  return {"no-training", "NO TRAINING SEEN: no loader, optimizer step or kernel launch was recorded", 1};
}

const RankAttribution* worst_rank(const std::vector<RankAttribution>& ranks) {
  const RankAttribution* worst = nullptr;
  for (const RankAttribution& rank : ranks)
    if (!rank.steps.empty() && (!worst || rank.share(Group::DeviceBusy) < worst->share(Group::DeviceBusy)))
      worst = &rank;
  return worst;
}

bool complains(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& f) { return f.severity != Severity::kInfo; });
}

// A job that hangs has no other verdict; the finding's title says where.
std::optional<Verdict> without_progress(const std::vector<Finding>& findings) {
  constexpr std::string_view kTitle = "No progress", kHeading = "NO PROGRESS";
  for (const Finding& finding : findings)
    if (finding.id == "hang" && finding.title.starts_with(kTitle))
      return Verdict{"cannot-tell",
                     std::string(kHeading) + io::printable(finding.title.substr(kTitle.size()), 512), 1};
  return std::nullopt;
}

}  // namespace

Verdict verdict(const model::Run& run, const std::vector<RankAttribution>& ranks,
                const std::vector<Finding>& findings) {
  if (auto hangs = without_progress(findings)) return *hangs;
  const RankAttribution* rank = worst_rank(ranks);
  if (!rank) return without_steps(run);
  if (rank->steps.size() < kLeastSteps)
    return {"too-short",
            fmt::format("TOO SHORT: {} steps were recorded; let it run for 20 or more", rank->steps.size()),
            1};
  Loss loss = largest_loss(*rank);
  double hidden = rank->share(Category::DeviceUnobserved);
  if (hidden > 0.5 && loss.share < kBound)
    return {"cannot-tell",
            fmt::format("CANNOT TELL: what the device did in {:.0f} % of the time was not recorded",
                        100 * hidden),
            1};
  if (rank->share(Category::Unknown) > 0.5)
    return {"cannot-tell",
            fmt::format("CANNOT TELL: {:.0f} % of the time has no known cause",
                        100 * rank->share(Category::Unknown)),
            1};
  double compute = rank->share(Category::Compute);
  double ceiling = compute > 0 ? 1 / compute : 1;
  if (loss.share >= kBound) return bound_by(*rank, loss);
  if (rank->device == model::kNone)
    return {
        "cpu-job",
        fmt::format(
            "CPU JOB: training computes {:.0f} % of the time on the CPU; input is no limit (ceiling {:.2f}x)",
            100 * compute, ceiling),
        ceiling};
  if (complains(findings))
    return {"compute-bound",
            fmt::format("COMPUTE-BOUND: the device computes {:.0f} % of the time; the findings below concern "
                        "its work (ceiling on the host {:.2f}x)",
                        100 * compute, ceiling),
            ceiling};
  return {"healthy",
          fmt::format("HEALTHY: nothing in input or host worth changing (ceiling {:.2f}x)", ceiling),
          ceiling};
}

}  // namespace gpuwatch::advise
