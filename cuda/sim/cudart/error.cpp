// SPDX-License-Identifier: Apache-2.0
#include "runtime.h"

namespace gpuwatch::sim {

thread_local cudaError_t t_last_error = cudaSuccess;

namespace {
const ErrorName* name_of(cudaError_t error) {
  for (const ErrorName& entry : kErrorNames) {
    if (entry.code == static_cast<int>(error)) return &entry;
  }
  return nullptr;
}
}  // namespace

}  // namespace gpuwatch::sim

using namespace gpuwatch::sim;

GWSIM_EXPORT cudaError_t cudaGetLastError() {
  const cudaError_t error = t_last_error;
  t_last_error = cudaSuccess;
  return error;
}
GWSIM_EXPORT cudaError_t cudaPeekAtLastError() {
  return t_last_error;
}

GWSIM_EXPORT const char* cudaGetErrorName(cudaError_t error) {
  const ErrorName* entry = name_of(error);
  return entry ? entry->name : "unrecognized error code";
}
GWSIM_EXPORT const char* cudaGetErrorString(cudaError_t error) {
  const ErrorName* entry = name_of(error);
  return entry ? entry->text : "unrecognized error code";
}
