// SPDX-License-Identifier: Apache-2.0
// Why a batch was not there when the consumer asked for it: each nanosecond inside next() by the state of the
// worker that owed the batch. Times in ns. Nothing is guessed: what the trace does not show is input.unknown.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "analyzer/attribute/fetch_split.h"
#include "analyzer/attribute/process_view.h"
#include "analyzer/attribute/tiling.h"

namespace gpuwatch::attribute {

class DataWait {
 public:
  explicit DataWait(const ProcessView& view);

  // Fills to `end`; cursor and end lie within the call, a LoaderNext or LoaderStart of `thread`.
  void explain(Tiling& tiling, model::Ns end, uint32_t thread, uint32_t call);
  // The same for a call within a batch that `thread` makes itself; false, and nothing filled, if it is in
  // none.
  bool explain_inner(Tiling& tiling, model::Ns end, uint32_t thread, uint32_t call);

 private:
  struct Delivery {
    model::TimeSpan next;
    uint32_t thread;
    uint32_t epoch;
    uint32_t batch;
  };
  struct Loading {  // a thread that fetches: what it was in, for FetchSplit
    const std::vector<model::HostCall>* calls = nullptr;
    std::unique_ptr<Activity> activity;
  };

  const Delivery* delivery_of(uint32_t thread, model::TimeSpan call) const;
  void explain_worker(Tiling& tiling, model::Ns end, const Delivery& delivery, Cause cause);
  void explain_inline(Tiling& tiling, model::Ns end, const Delivery& delivery, Cause cause);
  void fill_fetch(Tiling& tiling, model::Ns end, const Delivery& delivery, Cause cause);
  void fill_pinning(Tiling& tiling, model::Ns end, uint32_t loader, Cause cause) const;
  const Loading& loading_thread(const model::LoaderEpoch& epoch, const model::Batch& batch,
                                uint32_t consumer);

  const ProcessView& view_;
  const CpuContention contention_;
  std::vector<Delivery> deliveries_;                          // by thread, then by begin
  std::map<uint32_t, std::vector<model::TimeSpan>> pin_;      // by loader id, sorted
  std::map<std::pair<uint32_t, uint32_t>, Loading> loading_;  // by process and thread
  // Of the batch that was last asked about: a wait may be explained in many pieces.
  const model::Batch* split_of_ = nullptr;
  std::optional<FetchSplit> split_;
};

}  // namespace gpuwatch::attribute
