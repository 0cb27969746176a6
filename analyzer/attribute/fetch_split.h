// SPDX-License-Identifier: Apache-2.0
// What the making of one batch consisted of: reading, collating, waiting for a CPU or for Python's lock,
// transforming. Calls are taken where they happened when the thread that fetched left a trace. What is known
// only as a sum is spread over the rest: reads too short to be recorded and page faults that read evenly, run
// delay by where there was CPU contention (cpu_contention.h). Integer ns, no remainder lost.
#pragma once

#include <optional>

#include "analyzer/attribute/cpu_contention.h"
#include "analyzer/attribute/process_view.h"
#include "analyzer/attribute/tiling.h"

namespace gpuwatch::attribute {

// `when` relative to the whole, as a share of `amount`: floor(amount * when / whole), exact for any size.
// Sums over adjacent pieces telescope, so nothing is lost to rounding.
model::Ns share_until(model::Ns amount, model::Ns when, model::Ns whole);

// A thread's calls and what it was in from moment to moment; null where it left no trace.
struct FetchingThread {
  const std::vector<model::HostCall>* calls = nullptr;
  const Activity* activity = nullptr;  // View::kLoading
  uint16_t lock_wait = kNoOperation;
};

class FetchSplit {
 public:
  FetchSplit(const model::Batch& batch, const FetchingThread& thread, const CpuContention& contention);

  // Fills to `end`; cursor and end lie within the fetch. `cause` gives what the slices point to.
  void fill(Tiling& tiling, model::Ns end, Cause cause) const;

 private:
  void read_sums();
  void fill_in_place(Tiling& tiling, model::Ns end, Cause cause) const;
  void fill_evenly(Tiling& tiling, model::Ns end, Cause cause) const;
  void fill_work(Tiling& tiling, model::Ns end, Cause cause) const;
  model::Ns delay_until(model::Ns time) const;
  bool is_waiting(const Stretch& stretch) const;
  Category category_at(const Stretch& stretch) const;

  const model::Batch& batch_;
  FetchingThread thread_;
  const CpuContention& contention_;
  std::vector<model::TimeSpan> collates_;  // calls of the fetch, in order of time
  model::Ns blocked_ns_ = 0;               // in recorded reads
  model::Ns waiting_ns_ = 0;     // in other recorded calls off its CPU: asleep, or for Python's lock
  model::Ns collate_ns_ = 0;     // neither
  model::Ns transform_ns_ = 0;   // the rest; the sums below are parts of it and of collation
  model::Ns short_io_ns_ = 0;    // of transforming: reads too short to be recorded, and page faults that read
  model::Ns contention_ns_ = 0;  // CpuContention::until() over transforming and collating
  model::Ns delayed_ns_ = 0;     // runnable, not running; of transforming and collating, without short reads
};

}  // namespace gpuwatch::attribute
