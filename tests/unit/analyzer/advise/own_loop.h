// SPDX-License-Identifier: Apache-2.0
// A job that trains on the CPU and has no loader: steps and calls as a test wants them.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/analyzer/advise/cpu_training.h"

namespace gpuwatch::advise {

inline constexpr model::Ns kStart = 1'000 * kMs;

// Training on the CPU that feeds itself; steps of `lengths_ms`.
struct OwnLoop {
  test::Job job = test::make_loader_job({.workers = 0, .batches = 20});
  explicit OwnLoop(const std::vector<double>& lengths_ms) {
    model::Process& process = job.process();
    process.epochs.clear();
    process.loaders.clear();
    process.threads[0].calls.clear();
    job.run.operations = {{"call", trace::OpClass::Other}};
    std::vector<model::TimeSpan> steps;
    model::Ns at = kStart;
    for (const double ms : lengths_ms) {
      steps.push_back({at, at + model::Ns(ms * kMs)});
      at = steps.back().end;
    }
    process.start = kStart;
    process.last_seen = at;
    test::set_steps(job, steps);
    for (attribute::StepAttribution& step : job.rank().steps) step.step.batches = 0;
    test::set_shares(job, {});
  }
  const model::Step& step(size_t index) { return job.rank().steps[index].step; }
  // A call at `offset_ms` in a step, with this stack.
  void call(size_t index, trace::OpClass op_class, double offset_ms, double ms, const std::string& stack) {
    const model::Ns begin = step(index).begin + model::Ns(offset_ms * kMs);
    model::Thread& thread = job.process().threads[0];
    thread.calls.push_back({begin, begin + model::Ns(ms * kMs), 0, 0, model::kNone, 0, op_class, 0});
    const auto text = uint32_t(job.run.texts.size() + 1000);
    job.run.texts[text] = stack;
    thread.stacks.push_back({begin, text});
    std::ranges::sort(thread.calls, {}, &model::HostCall::begin);
    std::ranges::sort(thread.stacks, {}, &model::StackAt::begin);
  }
  Diagnosis diagnose() { return advise::diagnose(job.run, job.ranks); }
};

}  // namespace gpuwatch::advise
