// SPDX-License-Identifier: Apache-2.0
#include "launch.h"

#include <algorithm>
#include <utility>

#include "config.h"
#include "contents.h"
#include "device_attributes.h"
#include "graph.h"

namespace gpuwatch::sim {

bool launch(const Kernel& kernel, const LaunchShape& shape, Stream& stream, uint32_t correlation,
            Ns call_begin_ns, Ns duration_ns) {
  const uint64_t threads = uint64_t{shape.block[0]} * shape.block[1] * shape.block[2];
  const uint64_t blocks = uint64_t{shape.grid[0]} * shape.grid[1] * shape.grid[2];
  if (threads == 0 || threads > kThreadsPerBlock || blocks == 0) return false;
  Op op;
  op.kind = OpKind::kKernel;
  op.kernel = &kernel;
  op.correlation = correlation;
  std::copy_n(shape.grid, 3, op.grid);
  std::copy_n(shape.block, 3, op.block);
  op.shared_bytes = shape.shared_bytes;
  const bool by_kernel = duration_ns == kByKernel || kernel.has_rule();
  op.duration_ns = by_kernel ? kernel.duration_ns(blocks, threads) : duration_ns;
  op.latency_ns = config().launch_latency_ns;
  Contents::instance().launched(kernel, shape.arguments);
  issue(stream, std::move(op));
  spin_until(call_begin_ns + config().launch_cost_ns);  // of which the stand-in itself needs about 0.6 us
  return true;
}

void launch_host_function(std::function<void()> function, Stream& stream, uint32_t correlation) {
  Op op;
  op.kind = OpKind::kHostFunction;
  op.correlation = correlation;
  op.host_function = std::move(function);
  issue(stream, std::move(op));
}

}  // namespace gpuwatch::sim
