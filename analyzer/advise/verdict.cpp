// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/advise/diagnose.h"
#include "analyzer/advise/rule.h"
#include "analyzer/io/printable.h"

namespace gpuwatch::advise {
namespace {

using attribute::Bottleneck;
using attribute::Category;
using attribute::Group;
using attribute::RankAttribution;

constexpr double kBound = 0.05;  // XProf's lower band: below it a job is not bound by this

struct Loss {
  const char* id;
  const char* heading;
  Bottleneck bottleneck;
  const char* gpu;       // "the GPU idles 58% of each step waiting for data"
  const char* training;  // the same of a job without a GPU
};

constexpr Loss kLosses[] = {
    {"input-bound", "INPUT-BOUND", Bottleneck::Input, "the GPU idles {} of each step waiting for data",
     "training waits for data {} of each step"},
    {"host-bound", "HOST-BOUND", Bottleneck::Host,
     "the GPU idles {} of each step waiting for the training script on the CPU",
     "other work than computing the model takes {} of each step"},
    {"copy-bound", "COPY-BOUND", Bottleneck::Copy, "copies to or from the GPU block {} of each step",
     "copies take {} of each step"},
    {"comm-bound", "COMM-BOUND", Bottleneck::Communication,
     "communication between ranks blocks {} of each step",
     "communication between ranks takes {} of each step"},
};

const Loss& largest_loss(const RankAttribution& rank) {
  return *std::max_element(std::begin(kLosses), std::end(kLosses), [&](const Loss& a, const Loss& b) {
    return rank.time(a.bottleneck) < rank.time(b.bottleneck);
  });
}

std::string percent(double share) {
  return fmt::format("{:.0f}%", 100 * share);
}

Verdict bound_by(const RankAttribution& rank, const Loss& loss) {
  const double share = rank.share(loss.bottleneck), step = rank.mean_step_ms();
  const char* words = rank.device == model::kNone ? loss.training : loss.gpu;
  return {loss.id,
          fmt::format("{}: {} ({:.4g} of {:.4g} ms)", loss.heading,
                      fmt::format(fmt::runtime(words), percent(share)), share * step, step),
          share < 1 ? 1 / (1 - share) : 1};
}

Verdict without_steps(const model::Run& run) {
  for (const model::Process& process : run.processes)
    if (process.is_rank())
      return {"no-training",
              fmt::format("NO TRAINING SEEN: {} ran, but no repeating training step was found in what it did",
                          io::printable(process.script.empty() ? process.executable : process.script)),
              1};
  return {"no-training", "NO TRAINING SEEN: no DataLoader, optimizer step or kernel launch was recorded", 1};
}

const RankAttribution* worst_rank(const std::vector<RankAttribution>& ranks) {
  const RankAttribution* worst = nullptr;
  for (const RankAttribution& rank : ranks)
    if (!rank.steps.empty() && (!worst || rank.share(Group::DeviceBusy) < worst->share(Group::DeviceBusy)))
      worst = &rank;
  return worst;
}

// The job does not wait for its input or its host by more than the bound.
Verdict not_bound(const RankAttribution& rank, bool has_complaints) {
  const double compute = rank.share(Category::Compute);
  const double ceiling = compute > 0 ? 1 / compute : 1;
  if (rank.device == model::kNone)
    return {"cpu-job",
            fmt::format("CPU JOB: training computes on the CPU {} of the time; faster data loading can speed "
                        "it up by at most {:.2f}x",
                        percent(compute), ceiling),
            ceiling};
  if (has_complaints) {
    const std::string host =
        ceiling < kLeastSpeedup ? "" : fmt::format("; host and data loading by at most {:.2f}x", ceiling);
    return {"compute-bound",
            fmt::format("COMPUTE-BOUND: the GPU is busy {} of the time; only faster GPU work can speed this "
                        "up{}",
                        percent(compute), host),
            ceiling};
  }
  return {"healthy",
          fmt::format("HEALTHY: nothing to gain in data loading or on the host (up to {:.2f}x)", ceiling),
          ceiling};
}

}  // namespace

Verdict verdict(const model::Run& run, const std::vector<RankAttribution>& ranks,
                const std::vector<Finding>& findings) {
  for (const Finding& finding : findings)
    if (finding.verdict) return *finding.verdict;
  const RankAttribution* rank = worst_rank(ranks);
  if (!rank) return without_steps(run);
  if (rank->steps.size() < kLeastSteps)
    return {"too-short",
            fmt::format("TOO SHORT: only {} step{} recorded; let the job run for 20 steps or more",
                        rank->steps.size(), rank->steps.size() == 1 ? " was" : "s were"),
            1};
  const Loss& loss = largest_loss(*rank);
  const double hidden = rank->share(Bottleneck::Unobserved);
  if (hidden > 0.5 && rank->share(loss.bottleneck) < kBound)
    return {"cannot-tell",
            fmt::format("CANNOT TELL: what the GPU did was not recorded for {} of the time", percent(hidden)),
            1};
  if (rank->share(Category::Unknown) > 0.5)
    return {"cannot-tell",
            fmt::format("CANNOT TELL: {} of the time has no known cause",
                        percent(rank->share(Category::Unknown))),
            1};
  if (rank->share(loss.bottleneck) >= kBound) return bound_by(*rank, loss);
  return not_bound(*rank, first_complaint(findings) != nullptr);
}

}  // namespace gpuwatch::advise
