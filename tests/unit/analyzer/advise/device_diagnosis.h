// SPDX-License-Identifier: Apache-2.0
// What the rules say of a job that repeats one step on a device.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/advise/diagnose.h"
#include "tests/unit/analyzer/synthetic_run.h"

namespace gpuwatch::advise {

using Shares = std::initializer_list<std::pair<attribute::Category, double>>;

inline constexpr size_t kSteps = 100;
inline const test::Action kSync{
    .op_class = trace::OpClass::Sync, .cost_us = 2, .waits = true, .caller = 0x1000};

inline Diagnosis diagnose_device(const std::vector<test::Action>& step, Shares shares, bool is_torch = true) {
  test::Job job = test::make_device_job(step, kSteps);
  if (!is_torch) job.process().facts.clear();
  test::set_shares(job, shares);
  job.rank().series.samples_per_step = 32;
  return diagnose(job.run, job.ranks);
}

inline const Finding* find(const Diagnosis& diagnosis, const std::string& id) {
  for (const Finding& finding : diagnosis.findings)
    if (finding.id == id) return &finding;
  return nullptr;
}

}  // namespace gpuwatch::advise
