// SPDX-License-Identifier: Apache-2.0
#include "analyzer/advise/whole_batches.h"

#include <fmt/format.h>

namespace gpuwatch::advise {

void propose_whole_batches(Finding& finding, const model::Loader& loader) {
  const std::string size = loader.batch_size > 0 ? std::to_string(loader.batch_size) : "batch_size";
  finding.fix.change = NamedChange{"sampler", "BatchSampler"};
  finding.fix.summary =
      "Index whole batches: a BatchSampler as sampler=, with batch_size=None, so that __getitem__ gets a "
      "list "
      "of indices";
  finding.fix.snippet = fmt::format(
      "DataLoader(dataset, batch_size=None, sampler=BatchSampler(RandomSampler(dataset), {}, False))", size);
  finding.fix.location = loader.location;
}

}  // namespace gpuwatch::advise
