// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "analyzer/advise/rule.h"
#include "analyzer/report/report.h"

namespace gpuwatch::report {

std::string findings_markdown() {
  std::string out =
      "<!-- SPDX-License-Identifier: Apache-2.0 -->\n"
      "<!-- Generated from analyzer/advise/rules by `gpuwatch findings --markdown`; do not edit. -->\n"
      "# Findings\n\n"
      "What `gpuwatch analyze` can conclude, how it tells each cause from its neighbours, and what it then "
      "proposes.\n";
  for (const advise::Rule* rule : advise::all_rules()) {
    out += fmt::format("\n## {}\n\n{}\n\n**Evidence.** {}\n\n**Fix.** {}\n", rule->id, rule->wrong,
                       rule->evidence, rule->fix);
    if (rule->thresholds.empty()) continue;
    out += "\n| threshold | value | why |\n|---|---|---|\n";
    for (const advise::Threshold& threshold : rule->thresholds)
      out += fmt::format("| {} | {:g} {} | {} |\n", threshold.name, threshold.value, threshold.unit,
                         threshold.reason);
  }
  return out;
}

}  // namespace gpuwatch::report
