// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "analyzer/advise/communication.h"
#include "analyzer/advise/rule.h"
#include "analyzer/attribute/device_work.h"
#include "analyzer/io/printable.h"

namespace gpuwatch::advise {

extern const Rule kNcclTransport;

namespace {

constexpr double kLeastShare = 0.05;

constexpr Threshold kThresholds[] = {
    {"exposed communication", kLeastShare, "of the step", "XProf's lower band"},
};

// NCCL's own documentation of its environment variables says what each of them does.
struct Setting {
  const char* variable;
  std::string_view value;  // "": any
  const char* effect;
  bool across_hosts;  // matters between hosts only
};
constexpr Setting kSettings[] = {
    {"NCCL_P2P_DISABLE", "1", "GPUs of one machine exchange data through host memory", false},
    {"NCCL_SHM_DISABLE", "1", "ranks of one machine use the network instead of shared memory", false},
    {"NCCL_NET", "Socket", "hosts exchange data through TCP sockets", true},
    {"NCCL_IB_DISABLE", "1", "InfiniBand and RoCE are not used", true},
    {"NCCL_ALGO", "", "NCCL does not choose the algorithm by size and topology", false},
    {"NCCL_PROTO", "", "NCCL does not choose the protocol by size and topology", false},
};

bool spans_hosts(const model::Run& run) {
  const std::string* host = nullptr;
  for (const model::Process& process : run.processes) {
    if (!process.is_rank()) continue;
    if (host && process.host != *host) return true;
    host = &process.host;
  }
  return false;
}

const Setting* slow_setting(const RuleInput& input) {
  const bool has_hosts = spans_hosts(input.run);
  const auto is_set = [&](const Setting& setting) {
    const auto fact = input.process.facts.find(setting.variable);
    if (fact == input.process.facts.end() || fact->second.empty()) return false;
    return (setting.value.empty() || fact->second == setting.value) && (has_hosts || !setting.across_hosts);
  };
  const auto found = std::ranges::find_if(kSettings, is_set);
  return found == std::end(kSettings) ? nullptr : found;
}

std::optional<Finding> evaluate(const RuleInput& input) {
  const auto communication = attribute::communication(input.run, input.rank);
  if (!communication || input.rank.wall_ns <= 0) return std::nullopt;
  const double exposed = exposed_share(input, *communication);
  const Setting* setting = exposed < kLeastShare ? nullptr : slow_setting(input);
  if (!setting) return std::nullopt;
  Finding finding = make_finding(kNcclTransport, input, exposed);
  const std::string& value = input.process.facts.at(setting->variable);
  finding.title =
      fmt::format("NCCL transport: with {}={} {}; collectives keep compute waiting {:.0f}% of each step",
                  setting->variable, io::printable(value), setting->effect, 100 * exposed);
  finding.evidence = {
      {"exposed communication", 100 * exposed, "% of the step"},
      {"communication hidden behind compute", 100 * communication->hidden_share(), "% of its time"}};
  finding.fix.change = NamedChange{setting->variable, ""};
  finding.fix.summary =
      fmt::format("Unset {}, unless it works around a fault of this machine", setting->variable);
  finding.ceiling_speedup = ceiling_without_communication(input, exposed);
  finding.distorts = {attribute::Bottleneck::Communication};
  return finding;
}

}  // namespace

const Rule kNcclTransport{
    "nccl-transport",
    "An environment variable makes NCCL take a slow path, or a fixed one: no peer-to-peer copies, no shared "
    "memory, sockets instead of InfiniBand, a forced algorithm or protocol.",
    "Collectives keep compute waiting, and one of `NCCL_P2P_DISABLE`, `NCCL_SHM_DISABLE`, `NCCL_IB_DISABLE`, "
    "`NCCL_NET=Socket`, `NCCL_ALGO`, `NCCL_PROTO` is set; those that concern the network only where ranks "
    "run on "
    "several hosts. How fast the other path is, a trace does not tell: an upper bound.",
    "Unset the variable, and look whether `NCCL_DEBUG=INFO` names the path that you expect.",
    kThresholds,
    evaluate,
    attribute::Bottleneck::Communication};

}  // namespace gpuwatch::advise
