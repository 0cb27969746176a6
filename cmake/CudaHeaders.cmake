# SPDX-License-Identifier: Apache-2.0
# Finds the vendor's headers in an installed toolkit, else in the Python packages that scripts/setup.sh
# unpacked (build/nvidia, or any site-packages named in GPUWATCH_NVIDIA_PACKAGES).
#   cuda_headers   cuda_runtime_api.h, cuda.h, cupti.h, nvtx3/
#   nccl_headers   nccl.h (target exists only if found)
#   GPUWATCH_NVCC  nvcc, or NOTFOUND
set(GPUWATCH_NVIDIA_PACKAGES ${CMAKE_SOURCE_DIR}/build/nvidia CACHE PATH "unpacked NVIDIA Python packages")
set(_cuda_hints /usr/local/cuda $ENV{CUDA_HOME} ${GPUWATCH_NVIDIA_PACKAGES}/nvidia/cu13)
find_path(GPUWATCH_CUDA_INCLUDE cuda_runtime_api.h HINTS ${_cuda_hints} PATH_SUFFIXES include NO_DEFAULT_PATH)
find_path(GPUWATCH_CUPTI_INCLUDE cupti.h HINTS ${_cuda_hints} ${GPUWATCH_CUDA_INCLUDE} PATH_SUFFIXES include extras/CUPTI/include NO_DEFAULT_PATH)
find_path(GPUWATCH_NVTX_INCLUDE nvtx3/nvToolsExt.h HINTS ${_cuda_hints} PATH_SUFFIXES include NO_DEFAULT_PATH)
find_path(GPUWATCH_NCCL_INCLUDE nccl.h HINTS ${_cuda_hints} ${GPUWATCH_NVIDIA_PACKAGES}/nvidia/nccl PATH_SUFFIXES include)
find_program(GPUWATCH_NVCC nvcc HINTS ${_cuda_hints} PATH_SUFFIXES bin)

if(NOT GPUWATCH_CUDA_INCLUDE OR NOT GPUWATCH_CUPTI_INCLUDE)
  message(FATAL_ERROR "CUDA or CUPTI headers not found: run scripts/setup.sh, or set GPUWATCH_CUDA_INCLUDE and GPUWATCH_CUPTI_INCLUDE")
endif()
add_library(cuda_headers INTERFACE)
target_include_directories(cuda_headers SYSTEM INTERFACE ${GPUWATCH_CUDA_INCLUDE} ${GPUWATCH_CUPTI_INCLUDE})
if(GPUWATCH_NVTX_INCLUDE)
  target_include_directories(cuda_headers SYSTEM INTERFACE ${GPUWATCH_NVTX_INCLUDE})
endif()
if(GPUWATCH_NCCL_INCLUDE)
  add_library(nccl_headers INTERFACE)
  target_include_directories(nccl_headers SYSTEM INTERFACE ${GPUWATCH_NCCL_INCLUDE})
endif()
