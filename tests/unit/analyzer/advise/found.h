// SPDX-License-Identifier: Apache-2.0
// A finding of a job that a test made up.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "analyzer/advise/diagnose.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::advise {

inline const Finding* find(const Diagnosis& diagnosis, const std::string& id) {
  for (const Finding& finding : diagnosis.findings)
    if (finding.id == id) return &finding;
  return nullptr;
}

inline bool says(const std::vector<Limit>& limits, const std::string& words) {
  return std::ranges::any_of(
      limits, [&](const Limit& limit) { return limit.sentence.find(words) != limit.sentence.npos; });
}

// Keeps the diagnosis that the finding is part of.
class Found {
 public:
  Found(const test::Job& job, const std::string& id)
      : diagnosis_(diagnose(job.run, job.ranks)), finding_(find(diagnosis_, id)) {}
  explicit operator bool() const { return finding_ != nullptr; }
  const Finding* operator->() const { return finding_; }
  const Finding& operator*() const { return *finding_; }

 private:
  Diagnosis diagnosis_;
  const Finding* finding_;
};

}  // namespace gpuwatch::advise
