# SPDX-License-Identifier: Apache-2.0
# The vendor's headers and compiler, all from one place so that their versions agree.
#   cuda_headers   target: cuda_runtime_api.h, cuda.h, cupti.h, nvtx3/
#   nccl_headers   target: nccl.h
#   GPUWATCH_NVCC  nvcc
# scripts/setup.sh has chosen the place and linked it as build/cuda and build/nccl; a build without it looks where
# toolkits usually are. -DGPUWATCH_CUDA_ROOT=... and -DGPUWATCH_NCCL_ROOT=... overrule both.
set(_cuda_places ${CMAKE_SOURCE_DIR}/build/cuda $ENV{CUDA_HOME} /usr/local/cuda
                 ${CMAKE_SOURCE_DIR}/build/nvidia/nvidia/cu13)
set(_nccl_places ${CMAKE_SOURCE_DIR}/build/nccl $ENV{NCCL_HOME} /usr/local/cuda /usr /usr/local
                 ${CMAKE_SOURCE_DIR}/build/nvidia-nccl/nvidia/nccl)

function(gpuwatch_first_place_with header result)
  foreach(place ${ARGN})
    if(EXISTS ${place}/${header})
      set(${result} ${place} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${result} "" PARENT_SCOPE)
endfunction()

gpuwatch_first_place_with(include/cuda_runtime_api.h _cuda_found ${_cuda_places})
gpuwatch_first_place_with(include/nccl.h _nccl_found ${_nccl_places})
set(GPUWATCH_CUDA_ROOT "${_cuda_found}" CACHE PATH "CUDA toolkit, or the vendor's unpacked Python packages")
set(GPUWATCH_NCCL_ROOT "${_nccl_found}" CACHE PATH "folder whose include/ holds nccl.h")

find_path(GPUWATCH_CUDA_INCLUDE cuda_runtime_api.h PATHS ${GPUWATCH_CUDA_ROOT} PATH_SUFFIXES include NO_DEFAULT_PATH)
find_path(GPUWATCH_CUPTI_INCLUDE cupti.h PATHS ${GPUWATCH_CUDA_ROOT} PATH_SUFFIXES include extras/CUPTI/include
          NO_DEFAULT_PATH)
find_path(GPUWATCH_NVTX_INCLUDE nvtx3/nvToolsExt.h PATHS ${GPUWATCH_CUDA_ROOT} PATH_SUFFIXES include NO_DEFAULT_PATH)
find_path(GPUWATCH_NCCL_INCLUDE nccl.h PATHS ${GPUWATCH_NCCL_ROOT} PATH_SUFFIXES include NO_DEFAULT_PATH)
find_program(GPUWATCH_NVCC nvcc PATHS ${GPUWATCH_CUDA_ROOT} PATH_SUFFIXES bin NO_DEFAULT_PATH)

foreach(needed GPUWATCH_CUDA_INCLUDE GPUWATCH_CUPTI_INCLUDE GPUWATCH_NVTX_INCLUDE GPUWATCH_NVCC)
  if(NOT ${needed})
    message(FATAL_ERROR "${needed} not found in '${GPUWATCH_CUDA_ROOT}': run scripts/setup.sh, "
                        "or give a CUDA 13 toolkit with -DGPUWATCH_CUDA_ROOT=...")
  endif()
endforeach()
if(NOT GPUWATCH_NCCL_INCLUDE)
  message(FATAL_ERROR "nccl.h not found in '${GPUWATCH_NCCL_ROOT}': run scripts/setup.sh, "
                      "or name the folder whose include/ holds it with -DGPUWATCH_NCCL_ROOT=...")
endif()
message(STATUS "CUDA headers: ${GPUWATCH_CUDA_INCLUDE}, nvcc: ${GPUWATCH_NVCC}, NCCL header: ${GPUWATCH_NCCL_INCLUDE}")

# The vendor's headers are SYSTEM: their warnings are not ours to fix.
add_library(cuda_headers INTERFACE)
target_include_directories(cuda_headers SYSTEM INTERFACE
  ${GPUWATCH_CUDA_INCLUDE} ${GPUWATCH_CUPTI_INCLUDE} ${GPUWATCH_NVTX_INCLUDE})
add_library(nccl_headers INTERFACE)
target_include_directories(nccl_headers SYSTEM INTERFACE ${GPUWATCH_NCCL_INCLUDE})
