// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the libcudnn stand-in: the public values that it needs, restated (the library's
// headers come only with a package of several hundred MB), and what a descriptor of the backend API holds.
// Source of the values: NVIDIA's documentation of cuDNN 9 (graph API, backend descriptor and data types).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/library_launch.h"
#include "core/matmul.h"

#define GWSIM_EXPORT extern "C" __attribute__((visibility("default")))

namespace gpuwatch::sim::dnn {

enum Status : int { kSuccess = 0, kBadParam = 2000, kNotSupported = 3000, kExecutionFailed = 5000 };
enum DataType : int { kFloat = 0, kDouble = 1, kHalf = 2, kInt8 = 3, kInt32 = 4, kBfloat16 = 9, kInt64 = 10 };
enum NumericalNote : int { kNoteTensorCore = 0 };

enum DescriptorType : int {
  kEngine = 2,
  kEngineConfig = 3,
  kEngineHeuristics = 4,
  kExecutionPlan = 5,
  kConvolutionForward = 10,
  kConvolutionBackwardFilter = 11,
  kConvolutionBackwardData = 12,
  kOperationGraph = 15,
  kTensor = 17,
  kMatmulOperation = 19,
  kAttentionForward = 41,
};

enum AttributeType : int { kTypeDescriptor = 15 };

enum Attribute : int {
  kConvolutionStrides = 103,
  kHeuristicsGraph = 201,
  kHeuristicsResults = 202,
  kConfigEngine = 300,
  kConfigKnobChoices = 302,
  kConfigWorkspace = 303,
  kConfigSharedMemory = 304,
  kPlanConfig = 401,
  kPlanWorkspace = 402,
  kForwardConvolution = 702,
  kForwardW = 703,
  kForwardX = 704,
  kForwardY = 705,
  kDataConvolution = 708,
  kDataW = 709,
  kDataDx = 710,
  kDataDy = 711,
  kFilterConvolution = 714,
  kFilterDw = 715,
  kFilterX = 716,
  kFilterDy = 717,
  kGraphOperations = 801,
  kGraphEngineCount = 802,
  kTensorDataType = 901,
  kTensorDimensions = 902,
  kTensorStrides = 903,
  kTensorUniqueId = 906,
  kTensorIsVirtual = 907,
  kEngineGraph = 1300,
  kEngineIndex = 1301,
  kEngineKnobInfo = 1302,
  kEngineNumericalNotes = 1303,
  kEngineLayoutInfo = 1304,
  kEngineBehaviorNotes = 1305,
  kMatmulA = 1520,
  kMatmulB = 1521,
  kAttentionQ = 2800,
  kAttentionK = 2801,
};

// What a descriptor holds. Shared with those that refer to it, which a program may outlive it by.
struct Content;
using ContentRef = std::shared_ptr<Content>;

struct Value {
  int64_t count = 0;
  std::vector<char> bytes;           // plain elements
  std::vector<ContentRef> contents;  // or other descriptors
};

struct Content {
  int type = 0;
  bool finalized = false;
  std::map<int, Value> values;

  void set(int attribute, int64_t value);
  void set(int attribute, std::vector<ContentRef> contents);
  // Null, empty or `otherwise` where the attribute was not set.
  ContentRef content(int attribute) const;
  const std::vector<ContentRef>& contents(int attribute) const;
  std::vector<int64_t> numbers(int attribute) const;
  int64_t number(int attribute, int64_t otherwise = 0) const;
};

// Of one element; 4 for types that this file does not name.
size_t element_bytes(int data_type);

// The kernel that stands for a graph of operations, run by one of its engines. Where an operand type has
// tensor cores, engine 0 uses them and engine 1 does not; else there is one. So a program that filters
// engines by their numerical notes (PyTorch does, for TF32) gets what it asked for.
int engine_count(const Content& graph);
bool engine_uses_tensor_cores(const Content& graph, int64_t engine);
LibraryKernel kernel_of(const Content& graph, int64_t engine);

struct Handle {
  void* stream = nullptr;
};

inline int run_kernel(const Handle* handle, const LibraryKernel& kernel) {
  if (!handle) return kBadParam;
  return launch_from_library(kernel, handle->stream) ? kSuccess : kExecutionFailed;
}
template <class Kernels>
int run_kernels(const Handle* handle, const Kernels& kernels) {
  if (!handle) return kBadParam;
  return launch_all_from_library(kernels, handle->stream) ? kSuccess : kExecutionFailed;
}

struct TensorDescriptor {
  int type = kFloat;
  std::vector<int> dimensions;
  std::vector<int> strides;

  uint64_t elements() const;
};

// "float", as in the names of kernels.
const char* type_name(int data_type);
MatmulPrecision precision_of(int data_type, bool tensor_cores);
bool has_tensor_cores(int data_type);  // the device, for operands of this type

}  // namespace gpuwatch::sim::dnn
