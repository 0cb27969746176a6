// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

extern const Rule kNumaAffinity;

namespace {

using attribute::Category;

constexpr double kLeastFar = 0.50;
constexpr double kLeastCopies = 0.05;
constexpr size_t kLeastSamples = 4;

constexpr Threshold kThresholds[] = {
    {"machine samples with the training thread on another NUMA node than its GPU", kLeastFar,
     "of the samples", "an unbound thread moves between nodes: below half it is mostly on the GPU's node"},
    {"machine samples", double(kLeastSamples), "in the run", "fewer may be chance"},
    {"copies and launches that the GPU waits for", kLeastCopies, "of the step",
     "only these get slower with distance; XProf's lower band"},
};

uint32_t take_number(std::string_view& text) {
  uint32_t value = model::kNone;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  text.remove_prefix(size_t(end - text.data()));
  return error == std::errc() ? value : model::kNone;
}

// "0-15,32-47" contains 40.
bool list_contains(std::string_view list, uint32_t cpu) {
  while (!list.empty()) {
    const uint32_t first = take_number(list);
    uint32_t last = first;
    if (!list.empty() && list.front() == '-') {
      list.remove_prefix(1);
      last = take_number(list);
    }
    if (first == model::kNone || last == model::kNone) return false;
    if (cpu >= first && cpu <= last) return true;
    if (list.empty() || list.front() != ',') return false;
    list.remove_prefix(1);
  }
  return false;
}

// The NUMA node of a CPU by the fact "numa_cpus": "0:0-15,32-47;1:16-31,48-63". -1: not known.
int node_of(std::string_view nodes, uint32_t cpu) {
  while (!nodes.empty()) {
    const std::string_view entry = nodes.substr(0, nodes.find(';'));
    std::string_view list = entry;
    const uint32_t node = take_number(list);
    if (node != model::kNone && !list.empty() && list.front() == ':' && list_contains(list.substr(1), cpu))
      return int(node);
    nodes.remove_prefix(std::min(nodes.size(), entry.size() + 1));
  }
  return -1;
}

int device_node(const RuleInput& input) {
  for (const model::DeviceSample& sample : input.process.device_samples)
    if (sample.device == input.device->ordinal && sample.numa_node >= 0) return sample.numa_node;
  return -1;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const auto nodes = input.process.facts.find("numa_cpus");
  if (!input.device || nodes == input.process.facts.end()) return std::nullopt;
  const int near = device_node(input);
  if (near < 0) return std::nullopt;
  size_t known = 0, far = 0;
  for (const model::MachineSample& sample : input.process.machine_samples) {
    const int node = node_of(nodes->second, sample.cpu);
    known += node >= 0;
    far += node >= 0 && node != near;
  }
  const double copies = input.rank.share(Category::CopyH2D) + input.rank.share(Category::CopyD2H) +
                        input.rank.share(Category::CopyStaging) + input.rank.share(Category::LaunchApi);
  if (known < kLeastSamples || double(far) < kLeastFar * double(known) || copies < kLeastCopies)
    return std::nullopt;

  Finding finding = make_finding(kNumaAffinity, input, copies);
  finding.title = fmt::format(
      "NUMA: the training thread runs on another node than its GPU, copies and launches take {:.0f}% of each "
      "step",
      100 * copies);
  finding.evidence = {
      {"training thread on another node", 100 * double(far) / double(known), "% of the machine samples"},
      {"copies and launches that the GPU waits for", 100 * copies, "% of the step"},
      {"NUMA node", double(near), "of the GPU"}};
  finding.fix.change = NamedChange{"NUMA node", std::to_string(near)};
  finding.fix.summary = fmt::format(
      "Bind each rank to its GPU's node: numactl --cpunodebind={} --membind={} python ...", near, near);
  finding.ceiling_speedup = 1 / (1 - std::min(copies, 0.95));
  return finding;
}

}  // namespace

const Rule kNumaAffinity{
    "numa-affinity",
    "The training thread, and with it the host buffers that it touches first, is on another NUMA node than "
    "the GPU: copies and launches cross the link between the sockets.",
    "Machine samples of the CPU that the training thread runs on against the GPU's NUMA node, and copies or "
    "launches that the GPU waits for.",
    "Bind each rank to its GPU's node with `numactl` or in the launcher.",
    kThresholds,
    evaluate,
    attribute::Bottleneck::Copy};

}  // namespace gpuwatch::advise
