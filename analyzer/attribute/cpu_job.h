// SPDX-License-Identifier: Apache-2.0
// A process that never used a device: its training thread is the device. What it does is computing, except
// where a recorded call says that it was waiting for data, saving, sleeping or collecting garbage. Times in
// ns.
#pragma once

#include "analyzer/attribute/data_wait.h"
#include "analyzer/attribute/host_cause.h"
#include "analyzer/attribute/peer_wait.h"
#include "analyzer/attribute/process_view.h"
#include "analyzer/attribute/step_cost.h"
#include "analyzer/attribute/thread_wait.h"
#include "analyzer/attribute/tiling.h"

namespace gpuwatch::attribute {

class CpuJob {
 public:
  CpuJob(const ProcessView& view, size_t steps);

  // Fills from the cursor to `end`.
  void explain(Tiling& tiling, model::Ns end);

 private:
  void fill_stretch(Tiling& tiling, model::Ns end, const Stretch& stretch);
  void fill_computing(Tiling& tiling, model::Ns end);
  void fill_wait(Tiling& tiling, model::Ns end, uint32_t call);

  const ProcessView& view_;
  uint32_t thread_;
  DataWait data_wait_;
  ThreadWait thread_wait_;
  PeerWait peer_wait_;
  StepCosts step_costs_;
};

}  // namespace gpuwatch::attribute
