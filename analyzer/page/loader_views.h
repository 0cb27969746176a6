// SPDX-License-Identifier: Apache-2.0
// The batches of each rank's loaders over the whole run: a lane for each worker, and one for the training
// thread where it waits for a batch or, without workers, makes it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "analyzer/page/slices.h"
#include "analyzer/report/report.h"

namespace gpuwatch::page {

nlohmann::ordered_json loader_views(const report::Report& report, Names& names);

}  // namespace gpuwatch::page
