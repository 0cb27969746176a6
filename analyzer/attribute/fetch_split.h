// SPDX-License-Identifier: Apache-2.0
// What the making of one batch consisted of: reading, collating, waiting for a CPU, transforming. Reads and
// collation are taken where they happened when the thread that fetched left a trace; run delay, known only as
// a sum, is spread evenly over the rest. Integer ns, no remainder lost.
#pragma once

#include <optional>

#include "analyzer/attribute/process_view.h"
#include "analyzer/attribute/tiling.h"

namespace gpuwatch::attribute {

// `when` relative to the whole, as a share of `amount`: floor(amount * when / whole), exact for any size.
// Sums over adjacent pieces telescope, so nothing is lost to rounding.
model::Ns share_until(model::Ns amount, model::Ns when, model::Ns whole);

class FetchSplit {
 public:
  // `fetching` is the thread that made the batch, nullptr if it left no trace.
  FetchSplit(const model::Batch& batch, const Activity* fetching, const std::vector<model::HostCall>* calls);

  // Fills to `end`; cursor and end lie within the fetch. `cause` gives what the slices point to.
  void fill(Tiling& tiling, model::Ns end, Cause cause) const;

 private:
  void fill_in_place(Tiling& tiling, model::Ns end, Cause cause) const;
  void fill_evenly(Tiling& tiling, model::Ns end, Cause cause) const;
  void fill_transform(Tiling& tiling, model::Ns end, Cause cause) const;
  Category category_at(const Stretch& stretch) const;

  const model::Batch& batch_;
  const Activity* fetching_;
  const std::vector<model::HostCall>* calls_;
  model::Ns delayed_ns_ = 0;    // of the transforming part: runnable, not running
  model::Ns transform_ns_ = 0;  // the part that is neither reading nor collating
};

}  // namespace gpuwatch::attribute
