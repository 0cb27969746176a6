// SPDX-License-Identifier: Apache-2.0
// Saves traces into a scratch directory and builds the run from them.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "analyzer/model/build.h"
#include "tests/unit/analyzer/trace_builder.h"

namespace gpuwatch::test {

class RunTest : public testing::Test {
 protected:
  model::Run build(TraceBuilder& trace) {
    trace.save(directory_ / "one.gwt");
    return model::build_run(io::find_traces({directory_.path().string()}));
  }
  model::Run build(TraceBuilder& first, TraceBuilder& second) {
    first.save(directory_ / "a.gwt");
    second.save(directory_ / "b.gwt");
    return model::build_run(io::find_traces({directory_.path().string()}));
  }
  ScratchDirectory directory_;
  TraceBuilder trace_;
};

// One process with one thread, 100.
class OneThreadTest : public RunTest {
 protected:
  OneThreadTest() { trace_.process({}); }
  // From the first call on, slots count no more.
  const model::Process& process() {
    if (run_.processes.empty()) {
      trace_.thread(0, 100, slots_);
      run_ = build(trace_);
    }
    return run_.processes.at(0);
  }
  Slots slots_;
  model::Run run_;
};

constexpr uint64_t kMs = 1'000'000;

}  // namespace gpuwatch::test
