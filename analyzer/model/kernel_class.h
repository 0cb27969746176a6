// SPDX-License-Identifier: Apache-2.0
// What a kernel does, by its name (kernel_class.def): NVIDIA's and AMD's libraries, PyTorch's own kernels,
// those that torch.compile makes. Pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpuwatch::model {

enum class KernelClass : uint8_t {
#define GW_KERNEL_CLASS(identifier, name, words) k##identifier,
#define GW_KERNEL_NAME(where, part, kernel_class)
#include "analyzer/model/kernel_class.def"
#undef GW_KERNEL_NAME
#undef GW_KERNEL_CLASS
};

struct KernelClassInfo {
  std::string_view name;   // "matmul", stable
  std::string_view words;  // "matmuls"
};

inline constexpr std::array kKernelClasses = {
#define GW_KERNEL_CLASS(identifier, name, words) KernelClassInfo{name, words},
#define GW_KERNEL_NAME(where, part, kernel_class)
#include "analyzer/model/kernel_class.def"
#undef GW_KERNEL_NAME
#undef GW_KERNEL_CLASS
};
inline constexpr size_t kKernelClassCount = kKernelClasses.size();
constexpr const KernelClassInfo& info(KernelClass kernel_class) {
  return kKernelClasses[static_cast<size_t>(kernel_class)];
}

KernelClass kernel_class(std::string_view kernel_name);

// "at::native::reduce_kernel" of "void at::native::reduce_kernel<512, 1, ...>(...)". Namespaces without a
// name are left out. A name that is not demangled stays as it is.
std::string_view function_name(std::string_view kernel_name);

// For people: the function without namespaces and, where its template arguments tell what it computes, that
// word: "vectorized_elementwise_kernel CUDAFunctor_add".
std::string short_kernel_name(std::string_view kernel_name);

}  // namespace gpuwatch::model
