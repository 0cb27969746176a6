// SPDX-License-Identifier: Apache-2.0
// Composes libgpuwatch.so: its only constructor, and what happens when recording starts. A preloaded
// `python` behind a version manager's shim runs this in some thirty processes, so it only notes the time, the
// directory and the script, reads the settings and lets the sources arm themselves. A source has arm(), for
// the constructor (no system call, no allocation; it may look symbols up), and on_recording(), once per trace
// file. Neither fails loudly: a source that cannot work says so with record::put_source(name, why).
#include <sys/auxv.h>

#include "cuda/nvml/sampler.h"
#include "hooks/core/applied_settings.h"
#include "hooks/core/modules.h"
#include "hooks/core/operations.h"
#include "hooks/cudart/cudart.h"
#include "hooks/cupti/cupti.h"
#include "hooks/environment.h"
#include "hooks/injection/getenv.h"
#include "hooks/libc/exit.h"
#include "hooks/libc/libc.h"
#include "hooks/nccl/nccl.h"
#include "hooks/nvtx/nvtx.h"
#include "hooks/python/python.h"
#include "hooks/stacks/training_stacks.h"
#include "libinject/base/clock.h"
#include "libinject/base/log.h"
#include "libinject/context/sampler.h"
#include "libinject/record/recorder.h"
#include "libinject/record/run_directory.h"
#include "libinject/runtime/config.h"

#ifndef GPUWATCH_VERSION
#error "the build defines GPUWATCH_VERSION"
#endif

namespace gpuwatch::hooks {
namespace {

void start_nvml(uint64_t) noexcept {
  cuda::nvml::start_sampling();
}

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

// glibc passes a constructor what main() gets.
[[gnu::constructor]] void start(int argc, char** argv) noexcept {
  base::note_process_start();
  // In a setuid program the caller sets the environment: do nothing, create nothing.
  if (getauxval(AT_SECURE)) {
    record::g_state.store(record::State::kOff, std::memory_order_relaxed);
    return;
  }
  runtime::read_config();
  record::note_script(argc, argv);
  if (runtime::config().quiet) base::silence();
  if (runtime::config().disabled) {
    record::g_state.store(record::State::kOff, std::memory_order_relaxed);
    return;
  }
  applied::read_requests();
  record::on_file_start(write_operations);
  record::on_file_start(applied::on_recording);
  record::on_file_start(context::on_recording);
  record::on_file_start(write_environment);
  record::on_file_start(write_modules);
  record::on_file_start(cudart::on_recording);
  record::on_file_start(nccl::on_recording);
  record::on_file_start(libc::on_recording);
  record::on_file_start(python::on_recording);
  record::on_file_start(nvtx::on_recording);
  context::add_sample_source(start_nvml);
  context::add_sample_source(stacks::watch_training_thread);
  libc::arm();
  // A job that leaves by os._exit() would lose its last half second of device records.
  libc::set_before_quick_exit(cupti::before_exit);
  injection::arm();
  python::arm();
}

}  // namespace

}  // namespace gpuwatch::hooks
