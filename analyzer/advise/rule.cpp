// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

#define GW_RULE(identifier) extern const Rule identifier;
#include "analyzer/advise/rules.def"
#undef GW_RULE

std::span<const Rule* const> all_rules() {
  static const Rule* const rules[] = {
#define GW_RULE(identifier) &identifier,
#include "analyzer/advise/rules.def"
#undef GW_RULE
  };
  return rules;
}

const model::Loader* RuleInput::configured_loader() const {
  uint32_t index = predict::main_loader(run, rank);
  return index == model::kNone ? nullptr : &process.loaders[index];
}

Finding make_finding(const Rule& rule, const RuleInput& input, double lost_share) {
  Finding finding;
  finding.id = rule.id;
  finding.ranks = {input.rank_number()};
  finding.lost_share = lost_share;
  return finding;
}

}  // namespace gpuwatch::advise
