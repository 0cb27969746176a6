// SPDX-License-Identifier: Apache-2.0
// The libcudnn stand-in, apart from its backend API and recurrent layers (recurrent.cpp): handles, tensor
// descriptors, and batch normalization as one kernel each that is bound by memory. Pointers are not looked
// at. Everything else that a framework wants of the library is a loud stub. A handle or descriptor belongs to
// one thread at a time.
#include <algorithm>

#include "dnn.h"

using namespace gpuwatch::sim;
using namespace gpuwatch::sim::dnn;

namespace {

// `passes`: how often the kernel reads or writes as much as x holds.
int run_norm(const Handle* handle, const char* name, const TensorDescriptor* x, uint64_t passes) {
  if (!x) return kBadParam;
  const uint64_t bytes = x->elements() * element_bytes(x->type);
  LibraryKernel kernel = memory_kernel(
      std::string("cudnn::") + name + "<" + type_name(x->type) + ", float, 512>", bytes * passes);
  kernel.shape = shape_for_bytes(bytes);
  return run_kernel(handle, kernel);
}

int no_bytes(size_t* bytes) {
  if (!bytes) return kBadParam;
  *bytes = 0;
  return kSuccess;
}

}  // namespace

namespace gpuwatch::sim::dnn {

uint64_t TensorDescriptor::elements() const {
  uint64_t result = dimensions.empty() ? 0 : 1;
  for (const int dimension : dimensions) result *= static_cast<uint64_t>(std::max(dimension, 0));
  return result;
}

const char* type_name(int data_type) {
  return data_type == kHalf       ? "__half"
         : data_type == kBfloat16 ? "__nv_bfloat16"
         : data_type == kDouble   ? "double"
                                  : "float";
}

}  // namespace gpuwatch::sim::dnn

GWSIM_EXPORT int cudnnCreate(Handle** handle) {
  if (!handle) return kBadParam;
  *handle = new Handle;
  return kSuccess;
}
GWSIM_EXPORT int cudnnDestroy(Handle* handle) {
  delete handle;
  return kSuccess;
}
GWSIM_EXPORT int cudnnSetStream(Handle* handle, void* stream) {
  handle->stream = stream;
  return kSuccess;
}
GWSIM_EXPORT int cudnnGetStream(Handle* handle, void** stream) {
  *stream = handle->stream;
  return kSuccess;
}
GWSIM_EXPORT size_t cudnnGetCudartVersion() {
  return 13000;
}

GWSIM_EXPORT int cudnnCreateTensorDescriptor(TensorDescriptor** descriptor) {
  if (!descriptor) return kBadParam;
  *descriptor = new TensorDescriptor;
  return kSuccess;
}
GWSIM_EXPORT int cudnnDestroyTensorDescriptor(TensorDescriptor* descriptor) {
  delete descriptor;
  return kSuccess;
}
GWSIM_EXPORT int cudnnSetTensorNdDescriptor(TensorDescriptor* descriptor, int type, int count,
                                            const int* dimensions, const int* strides) {
  if (!descriptor || count < 1 || !dimensions || !strides) return kBadParam;
  *descriptor = {type, {dimensions, dimensions + count}, {strides, strides + count}};
  return kSuccess;
}
GWSIM_EXPORT int cudnnGetTensorNdDescriptor(const TensorDescriptor* descriptor, int requested, int* type,
                                            int* count, int* dimensions, int* strides) {
  if (!descriptor || !type || !count || !dimensions || !strides) return kBadParam;
  *type = descriptor->type;
  *count = static_cast<int>(descriptor->dimensions.size());
  const int n = std::min(requested, *count);
  std::copy_n(descriptor->dimensions.begin(), n, dimensions);
  std::copy_n(descriptor->strides.begin(), n, strides);
  return kSuccess;
}

GWSIM_EXPORT int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    Handle*, int, int, const TensorDescriptor*, const TensorDescriptor*, const TensorDescriptor*,
    const TensorDescriptor*, const void*, size_t* bytes) {
  return no_bytes(bytes);
}
GWSIM_EXPORT int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(Handle*, int, int, const void*,
                                                                      const TensorDescriptor*,
                                                                      size_t* bytes) {
  return no_bytes(bytes);
}
GWSIM_EXPORT int cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    Handle*, int, int, const TensorDescriptor*, const TensorDescriptor*, const TensorDescriptor*,
    const TensorDescriptor*, const TensorDescriptor*, const TensorDescriptor*, const void*, size_t* bytes) {
  return no_bytes(bytes);
}

// Of these calls' many arguments only those up to the input's descriptor count, and the caller clears the
// rest. Statistics need all of x before any of it can be normalized, so training reads it twice.
GWSIM_EXPORT int cudnnBatchNormalizationForwardTrainingEx(Handle* handle, int, int, const void*, const void*,
                                                          const TensorDescriptor* x) {
  return run_norm(handle, "bn_fw_tr_1C11_kernel_NCHW", x, 3);
}
GWSIM_EXPORT int cudnnBatchNormalizationForwardInference(Handle* handle, int, const void*, const void*,
                                                         const TensorDescriptor* x) {
  return run_norm(handle, "bn_fw_inf_1C11_kernel_NCHW", x, 2);
}
GWSIM_EXPORT int cudnnBatchNormalizationBackwardEx(Handle* handle, int, int, const void*, const void*,
                                                   const void*, const void*, const TensorDescriptor* x) {
  return run_norm(handle, "bn_bw_1C11_kernel_new", x, 5);
}
