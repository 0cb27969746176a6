// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "analyzer/advise/device_samples.h"
#include "analyzer/advise/machine.h"
#include "analyzer/model/quantile.h"
#include "libinject/trace/layout.h"

namespace gpuwatch::advise {

extern const Rule kPcieLink;

namespace {

using attribute::Category;

constexpr double kLeastCopies = 0.05;
constexpr double kLowBandwidth = 0.50;
constexpr double kReachable = 0.80;
constexpr uint64_t kLargeCopy = 1 << 20;
constexpr size_t kLeastLargeCopies = 8;

constexpr Threshold kThresholds[] = {
    {"exposed copies", kLeastCopies, "of the step", "only these get shorter; XProf's lower band"},
    {"median bandwidth of copies from pinned memory", kLowBandwidth, "of the link's raw rate",
     "copies from pinned memory reach 80 to 90% of it"},
    {"copies from pinned memory", double(kLeastLargeCopies), "of 1 MiB or more",
     "smaller ones are mostly latency, fewer may be chance"},
    kEnoughDeviceSamples,
};

// Raw rate of one lane in GB/s after line coding, by generation (PCI-SIG's specifications 1 to 6).
constexpr std::array<double, 7> kLaneRate = {0, 0.25, 0.5, 0.985, 1.969, 3.938, 7.563};

struct Link {
  uint32_t generation = 0, width = 0;
  double gb_s() const { return kLaneRate[std::min<size_t>(generation, kLaneRate.size() - 1)] * width; }
  std::string words() const { return fmt::format("PCIe {} x{}", generation, width); }
};

struct LinkState {
  Link now, possible;
};

// A GPU lowers its link's generation while it is idle: the fastest state that was seen counts.
std::optional<LinkState> link_state(const RuleInput& input) {
  LinkState state;
  size_t known = 0;
  for (const model::DeviceSample* sample : samples_in_steps(input)) {
    const Link now{sample->pcie_generation, sample->pcie_width};
    const Link possible{sample->pcie_generation_max, sample->pcie_width_max};
    if (now.gb_s() <= 0 || possible.gb_s() <= 0) continue;
    ++known;
    if (now.gb_s() > state.now.gb_s()) state.now = now;
    state.possible = possible;
  }
  return known < kLeastDeviceSamples ? std::nullopt : std::optional(state);
}

// GB/s; 0 where too few were seen.
double pinned_rate(const model::Device& device) {
  std::vector<double> rates;
  for (const model::DeviceOp& op : device.operations)
    if (op.kind == trace::RecordKind::CopyH2D && !(op.flags & trace::kSourcePageable) &&
        op.bytes >= kLargeCopy && op.end > op.begin)
      rates.push_back(double(op.bytes) / double(op.end - op.begin));
  return rates.size() < kLeastLargeCopies ? 0 : model::median(std::move(rates));
}

Finding narrow_link(const RuleInput& input, const LinkState& link, double copies) {
  Finding finding = make_finding(kPcieLink, input, copies * (1 - link.now.gb_s() / link.possible.gb_s()));
  finding.title = fmt::format("PCIe link: {} where {} is possible, exposed copies take {:.0f}% of each step",
                              link.now.words(), link.possible.words(), 100 * copies);
  finding.evidence = {{"exposed copies", 100 * copies, "% of the step"},
                      {"link rate", link.now.gb_s(), "GB/s"},
                      {"possible link rate", link.possible.gb_s(), "GB/s"}};
  finding.fix.change = NamedChange{"PCIe link", link.possible.words()};
  finding.fix.summary = fmt::format(
      "Bring the link to {}: reseat the GPU, check slot, riser and firmware settings (nvidia-smi -q -d PCI)",
      link.possible.words());
  return finding;
}

Finding slow_copies(const RuleInput& input, const LinkState& link, double copies, double rate) {
  const double reachable = kReachable * link.now.gb_s();
  Finding finding = make_finding(kPcieLink, input, copies * (1 - rate / reachable));
  finding.title = fmt::format("PCIe link: copies from pinned memory reach {:.3g} of {:.3g} GB/s of {}", rate,
                              link.now.gb_s(), link.now.words());
  finding.evidence = {{"exposed copies", 100 * copies, "% of the step"},
                      {"median of copies from pinned memory", rate, "GB/s"},
                      {"link rate", link.now.gb_s(), "GB/s"}};
  finding.fix.change = NamedChange{"PCIe topology", "checked"};
  finding.fix.summary =
      "Find out who shares the path from memory to the GPU: nvidia-smi topo -m (switches, NUMA nodes), "
      "other GPUs that copy at the same time, IOMMU settings of a virtual machine";
  return finding;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const double copies = input.rank.share(Category::CopyH2D) + input.rank.share(Category::CopyD2H);
  if (!input.device || copies < kLeastCopies) return std::nullopt;
  const auto link = link_state(input);
  if (!link) return std::nullopt;
  const double rate = pinned_rate(*input.device);
  if (rate > link->now.gb_s()) return std::nullopt;  // a virtual machine's link, or another path (NVLink-C2C)
  Finding finding;
  if (link->now.gb_s() < link->possible.gb_s())
    finding = narrow_link(input, *link, copies);
  else if (rate > 0 && rate < kLowBandwidth * link->now.gb_s())
    finding = slow_copies(input, *link, copies, rate);
  else
    return std::nullopt;
  if (finding.lost_share < kLeastLost) return std::nullopt;
  if (rate > 0 && finding.evidence.size() == 3 && finding.evidence[1].value != rate)
    finding.evidence.push_back({"median of copies from pinned memory", rate, "GB/s"});
  finding.ceiling_speedup = 1 / (1 - finding.lost_share);
  return finding;
}

}  // namespace

const Rule kPcieLink{
    "pcie-link",
    "The GPU's PCIe link has fewer lanes or a lower generation than GPU and slot allow, or copies from "
    "pinned memory reach less than half of its rate.",
    "NVML's current link against its maximum (the fastest state seen in the recorded steps, because an idle "
    "GPU lowers its link on purpose), and the median rate of large copies from pinned memory. Only where "
    "exposed copies take a relevant share of the step. Copies from pageable memory are `pin-memory`.",
    "Reseat the GPU, check slot, riser and firmware settings; for a full link with slow copies, the "
    "topology (`nvidia-smi topo -m`).",
    kThresholds,
    evaluate,
    attribute::Bottleneck::Copy};

}  // namespace gpuwatch::advise
