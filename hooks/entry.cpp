// SPDX-License-Identifier: Apache-2.0
// The composition of libgpuwatch.so: its one constructor and what happens when recording starts. One
// preloaded `python` behind a version manager's shim runs this in some thirty processes, so it only notes the
// time, reads the settings and lets the sources arm themselves.
#include <sys/auxv.h>

#include "cuda/nvml/sampler.h"
#include "hooks/environment.h"
#include "hooks/evidence.h"
#include "hooks/modules.h"
#include "hooks/operations.h"
#include "hooks/source.h"
#include "libinject/base/clock.h"
#include "libinject/base/log.h"
#include "libinject/context/sampler.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/config.h"

#ifndef GPUWATCH_VERSION
#error "the build defines GPUWATCH_VERSION"
#endif

namespace gpuwatch::hooks {
namespace {

void write_operations() noexcept {
  for (uint16_t op = 1; op < static_cast<uint16_t>(Op::kCount); ++op) {
    trace::OperationFields fields;
    fields.op = op;
    fields.op_class = static_cast<uint8_t>(kOperations[op].op_class);
    fields.name = record::intern(kOperations[op].name);
    record::put(fields);
  }
  record::put_fact("gpuwatch", GPUWATCH_VERSION);
}

[[gnu::constructor]] void start() noexcept {
  base::note_process_start();
  // In a setuid program the environment is somebody else's: do nothing, create nothing.
  if (getauxval(AT_SECURE)) {
    record::g_state.store(record::State::kOff, std::memory_order_relaxed);
    return;
  }
  runtime::read_config();
  if (runtime::config().quiet) base::silence();
  if (runtime::config().disabled) {
    record::g_state.store(record::State::kOff, std::memory_order_relaxed);
    return;
  }
  record::on_file_start(write_operations);
  record::on_file_start(context::on_recording);
  record::on_file_start(write_environment);
  record::on_file_start(write_modules);
  record::on_file_start(cudart::on_recording);
  record::on_file_start(nccl::on_recording);
  record::on_file_start(libc::on_recording);
  record::on_file_start(python::on_recording);
  record::on_file_start(nvtx::on_recording);
  context::add_sample_source(cuda::nvml::sample);
  libc::arm();
  injection::arm();
  python::arm();
}

}  // namespace

bool begin_recording(const char* evidence) noexcept {
  if (record::is_recording()) return true;
  return record::is_dormant() && record::activate(evidence);
}

}  // namespace gpuwatch::hooks
