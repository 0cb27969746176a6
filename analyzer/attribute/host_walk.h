// SPDX-License-Identifier: Apache-2.0
// Why the device was idle: what the thread that ended the gap with its launch was doing meanwhile, or what
// the device itself was waiting for when the launch had long been made. Times in ns. Amortised linear over
// all gaps, with a binary search for each.
#pragma once

#include "analyzer/attribute/data_wait.h"
#include "analyzer/attribute/host_cause.h"
#include "analyzer/attribute/own_code.h"
#include "analyzer/attribute/peer_wait.h"
#include "analyzer/attribute/process_view.h"
#include "analyzer/attribute/step_cost.h"
#include "analyzer/attribute/sync_stall.h"
#include "analyzer/attribute/thread_wait.h"
#include "analyzer/attribute/tiling.h"

namespace gpuwatch::attribute {

// A gap that ends with work launched before it began is the device's own. Starting the next kernel of a full
// queue takes 1 to 3 us, passing an event between streams up to 10; beyond that it waited for something else.
inline constexpr model::Ns kLaunchGapNs = 10'000;

struct Gap {
  model::TimeSpan time;
  const model::DeviceOp* next = nullptr;      // ends the gap; nullptr: nothing follows
  const model::DeviceOp* previous = nullptr;  // its end began the gap
};

class HostWalk {
 public:
  HostWalk(const ProcessView& view, size_t steps)
      : view_(view),
        steps_(steps),
        data_wait_(view),
        thread_wait_(view, steps),
        peer_wait_(view),
        step_costs_(view, view.training_thread()) {}

  // Fills from the gap's begin, where the cursor is, to its end.
  void explain(const Gap& gap, Tiling& tiling);

  // From the cursor to `end`, what `thread` was doing; for devices that are not observed.
  void explain_thread(Tiling& tiling, model::Ns end, uint32_t thread);

 private:
  // A synchronisation costs what the host could have launched while it waited: time of that kind after it, up
  // to the length of the wait, is the synchronisation's.
  struct Refill {
    std::optional<SyncStall> stall;
    model::Ns left_ns = 0;
  };

  Refill refill_at(uint32_t thread, model::Ns time) const;
  bool is_recorded(uint32_t thread) const;
  void fill_device_side(const Gap& gap, Tiling& tiling) const;
  void walk(Tiling& tiling, model::Ns end, uint32_t thread, Refill& refill, int depth);
  void fill_stretch(Tiling& tiling, model::Ns end, uint32_t thread, size_t stretch_index, Refill& refill,
                    int depth);
  void fill_wait(Tiling& tiling, model::Ns end, uint32_t thread, uint32_t call, Refill& refill, int depth);
  void fill_producing(Tiling& tiling, model::Ns end, uint32_t waker, Cause cause);
  static void fill_feeding(Tiling& tiling, model::Ns end, const Cause& cause, Refill& refill);

  void fill_own_code(Tiling& tiling, model::Ns end, uint32_t thread, size_t stretch_index, Refill& refill);
  const OwnCode& own_code(uint32_t thread);

  const ProcessView& view_;
  size_t steps_;
  std::map<uint32_t, OwnCode> own_code_;  // by thread
  DataWait data_wait_;
  ThreadWait thread_wait_;
  PeerWait peer_wait_;
  StepCosts step_costs_;
};

}  // namespace gpuwatch::attribute
