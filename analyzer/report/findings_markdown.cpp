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
      "What `gpuwatch analyze` can conclude, how it separates each cause from similar ones, and what it "
      "proposes. `gpuwatch explain ID` prints one of these in the terminal.\n";
  for (const advise::Rule* rule : advise::all_rules()) {
    out += fmt::format("\n## {}\n\n{}\n\n**How it is recognized.** {}\n\n**What to do.** {}\n", rule->id,
                       rule->wrong, rule->evidence, rule->fix);
    if (rule->thresholds.empty()) continue;
    out += "\n| threshold | value | why |\n|---|---|---|\n";
    for (const advise::Threshold& threshold : rule->thresholds)
      out += fmt::format("| {} | {} | {} |\n", threshold.name, threshold_words(threshold), threshold.reason);
  }
  return out;
}

}  // namespace gpuwatch::report
