// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/helper_threads.h"

#include <algorithm>

namespace gpuwatch::predict {
namespace {

// From step to step, as each optimizer step has it for the time since the one before.
double training_thread_ns(const model::Process& process, model::TimeSpan span) {
  if (process.training_thread >= process.threads.size()) return 0;
  const model::Thread& thread = process.threads[process.training_thread];
  double sum = 0;
  for (const model::HostCall& call : thread.calls) {
    if (call.op_class != trace::OpClass::OptimizerStep || call.detail >= thread.cpu_details.size()) continue;
    if (call.end <= span.begin || call.end > span.end) continue;
    sum += double(thread.cpu_details[call.detail].cpu_ns());
  }
  return std::min(sum, double(span.length()));
}

}  // namespace

std::optional<HelperTime> divide_cpu_time(const model::Process& process, model::TimeSpan span,
                                          double process_ns, double fetch_ns) {
  const double thread_ns = training_thread_ns(process, span);
  if (thread_ns <= 0) return std::nullopt;
  const double helpers_each_takes = std::max(1.0, double(process.cpu_count)) - 1;
  HelperTime result;
  result.training_ns = std::max(0.0, thread_ns - fetch_ns);
  const double helpers_ns = std::max(0.0, process_ns - thread_ns);
  result.helped_training_ns = std::min(helpers_ns, result.training_ns * helpers_each_takes);
  result.helped_fetches_ns = std::min(helpers_ns - result.helped_training_ns, fetch_ns * helpers_each_takes);
  return result;
}

}  // namespace gpuwatch::predict
