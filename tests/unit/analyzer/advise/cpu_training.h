// SPDX-License-Identifier: Apache-2.0
// A job that trains on the CPU, and calls of its script that a test puts into its steps.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "tests/unit/analyzer/advise/found.h"

namespace gpuwatch::advise {

inline constexpr model::Ns kMs = 1'000'000;

// Training on the CPU, 100 steps of 10 ms, with calls of the training thread put into some of them.
struct CpuTraining {
  test::Job job;
  explicit CpuTraining(std::function<double(size_t)> think_ms = [](size_t) { return 9.0; })
      : job(test::make_loader_job({.workers = 0,
                                   .batches = 100,
                                   .service_ms = [](size_t) { return 1.0; },
                                   .think_ms = std::move(think_ms)})) {
    job.process().epochs.clear();
    job.run.operations = {{"call", trace::OpClass::Other}};
    test::set_shares(job, {});
  }
  // In every `every`-th step.
  void call(trace::OpClass op_class, model::Ns length, size_t every, uint64_t bytes = 0, size_t first = 0) {
    model::Thread& thread = job.process().threads[0];
    for (size_t i = first; i < job.rank().steps.size(); i += every) {
      const model::Ns begin = job.rank().steps[i].step.begin + kMs;
      model::HostCall call{begin, begin + length, 0, 0, model::kNone, 0, op_class, 0};
      if (bytes > 0) {
        call.detail = uint32_t(thread.io_details.size());
        thread.io_details.push_back(trace::IoDetail(bytes, 0, 0, 0));
      }
      thread.calls.push_back(call);
    }
    std::sort(thread.calls.begin(), thread.calls.end(),
              [](const model::HostCall& a, const model::HostCall& b) { return a.begin < b.begin; });
  }
  Diagnosis diagnose() { return advise::diagnose(job.run, job.ranks); }
};

inline void expect_step(const Finding* finding, double now_ms, double after_ms) {
  ASSERT_NE(finding, nullptr);
  ASSERT_TRUE(finding->prediction);
  EXPECT_NEAR(finding->prediction->now, now_ms, 0.01);
  EXPECT_NEAR(finding->prediction->value.expected, after_ms, 0.05);
  EXPECT_LE(finding->prediction->value.low, after_ms);
  EXPECT_GE(finding->prediction->value.high, after_ms);
}

}  // namespace gpuwatch::advise
