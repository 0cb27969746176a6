// SPDX-License-Identifier: Apache-2.0
// What the training thread's own code was held up by, as far as its counters tell from step to step: a CPU
// that it had to wait for, short reads, pages that had to be read. Known as sums: between two optimizer
// steps, or, where there are none, the wait for a CPU between two samples of the machine. Reads and pages are
// spread evenly over the own code. Integer ns.
#pragma once

#include <optional>
#include <vector>

#include "analyzer/attribute/delayed_code.h"
#include "analyzer/attribute/process_view.h"
#include "analyzer/attribute/tiling.h"

namespace gpuwatch::attribute {

class StepCosts {
 public:
  // Linear in the thread's calls.
  StepCosts(const ProcessView& view, uint32_t thread);

  // Until when, at most `end`, the thread's costs are of one kind from `time` on: ask piece by piece.
  model::Ns until(model::Ns time, model::Ns end) const;
  // Fills what is known of own code from the cursor to `end`, which until() gave; the rest is left.
  void fill(Tiling& tiling, model::Ns end, Cause cause) const;
  // Fills only what waiting for a CPU took.
  void fill_delay(Tiling& tiling, model::Ns end, Cause cause) const;

  // Of a span of own code, how long it waited for a CPU.
  model::Ns delay_within(model::TimeSpan time) const { return delayed_ ? delayed_->within(time) : 0; }

 private:
  struct Cost {
    model::TimeSpan time;
    const trace::CpuDetail* cpu = nullptr;  // null: only the delay is known
    const trace::IoCounts* io = nullptr;
    model::Ns run_delay_ns = 0;
    model::Ns own_ns = 0;  // outside of all calls
    model::Ns delayed_ns = 0, short_io_ns = 0, fault_ns = 0;
  };
  // What recorded reads and batches made on this thread account for, within the time of a cost.
  struct Accounted {
    model::Ns io_ns = 0, cpu_ns = 0, delayed_ns = 0;
    model::Ns elsewhere_ns = 0;  // in batches, and in calls that keep the thread off its CPU
    uint32_t major_faults = 0;
  };
  void find_intervals(const model::Thread& thread);
  void find_samples(const std::vector<model::MachineSample>& samples);
  void measure_own_code(const Activity& activity);
  static Accounted account(const model::Thread& thread, model::TimeSpan time, size_t& next);
  static void settle(Cost& cost, const Accounted& accounted);
  const Cost* at(model::Ns time) const;

  std::vector<Cost> costs_;  // in order of time, disjoint
  std::optional<DelayedCode> delayed_;
};

}  // namespace gpuwatch::attribute
