// SPDX-License-Identifier: Apache-2.0
// The real functions behind the rows of tensorflow.def. If no object defines one, the process ends as it
// would have without us: with ld.so's message at the first call. Thread safety: any. Signal safety: after the
// first call from a place.
#pragma once

#include <cstdint>

#include "libinject/base/compiler.h"
#include "libinject/runtime/real_function.h"

namespace gpuwatch::hooks::tensorflow {

// See tensorflow.cpp for why these fit.
using SixWords = uintptr_t (*)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);

[[noreturn]] GW_COLD void end_as_the_linker_would(const char* symbol) noexcept;

class TensorFlowFunction {
 public:
  explicit constexpr TensorFlowFunction(const char* symbol) noexcept : symbol_(symbol), real_(symbol) {}

  SixWords get(const void* caller, SixWords own) noexcept {
    const SixWords real = real_.get(caller, reinterpret_cast<void*>(own));
    if (GW_UNLIKELY(!real)) end_as_the_linker_would(symbol_);
    return real;
  }

 private:
  const char* symbol_;
  runtime::RealFunction<SixWords> real_;
};

#define GW_TENSORFLOW(identifier, op_class, name, symbol) extern constinit TensorFlowFunction g_##identifier;
#include "hooks/tensorflow/tensorflow.def"
#undef GW_TENSORFLOW

}  // namespace gpuwatch::hooks::tensorflow
