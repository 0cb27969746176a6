// SPDX-License-Identifier: Apache-2.0
#include "hooks/environment.h"

#include <gnu/libc-version.h>

#include <cstdlib>

#include "libinject/base/syscall.h"
#include "libinject/base/text.h"
#include "libinject/record/recorder.h"

namespace gpuwatch::hooks {
namespace {

constexpr const char* kVariables[] = {
    "CUDA_VISIBLE_DEVICES",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "TORCH_DISTRIBUTED_DEBUG",
    "TORCH_LOGS",
    "TORCH_SHOW_CPP_STACKTRACES",
    "PYTHONDEVMODE",
    "PYTHONMALLOC",
    "PYTHONTRACEMALLOC",
    "GLIBC_TUNABLES",
    "MALLOC_TOP_PAD_",
    "MALLOC_TRIM_THRESHOLD_",
    "MALLOC_MMAP_THRESHOLD_",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NCCL_DEBUG",
    "NCCL_DEBUG_SUBSYS",
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_P2P_DISABLE",
    "NCCL_SHM_DISABLE",
    "NCCL_IB_DISABLE",
    "NCCL_NET",
    "TF_GPU_THREAD_MODE",
    "TF_ENABLE_ONEDNN_OPTS",
};

// Device nodes, not a driver call: the job may not want CUDA initialised.
uint64_t count_gpus() noexcept {
  constexpr uint64_t kMostGpus = 64;
  uint64_t count = 0;
  for (uint64_t i = 0; i < kMostGpus; ++i) {
    base::Text<32> node;
    node.add("/dev/nvidia").add(i);
    count += base::raw_syscall(SYS_access, base::address(node.c_str()), 0 /* exists */) == 0;
  }
  return count;
}

}  // namespace

void write_environment() noexcept {
  for (const char* name : kVariables) {
    if (const char* value = std::getenv(name)) record::put_fact(name, value);
  }
  record::put_fact("glibc", gnu_get_libc_version());
  base::Text<32> gpus;
  record::put_fact("gpus", gpus.add(count_gpus()).c_str());
}

}  // namespace gpuwatch::hooks
