// SPDX-License-Identifier: Apache-2.0
// The real functions behind the rows of tensorflow.def.
//
// ld.so binds a caller to us whichever library defines the symbol, so it is looked for in the caller's own
// scope, after us in the global scope, in TensorFlow's libraries, and at last in the symbol table of every
// loaded object. If no object defines it, the process ends as it would have without us: with ld.so's message
// at the first call. Thread safety: any. Signal safety: after the first call.
#pragma once

#include <cstdint>

#include "libinject/base/compiler.h"
#include "libinject/runtime/next_definition.h"
#include "libinject/runtime/real_function.h"

namespace gpuwatch::hooks::tensorflow {

// See tensorflow.cpp for why these fit.
using SixWords = uintptr_t (*)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);

inline constexpr const char* kSonames[] = {"libtensorflow_cc.so.2", "libtensorflow_framework.so.2", nullptr};

class TensorFlowFunction {
 public:
  explicit constexpr TensorFlowFunction(const char* symbol) noexcept
      : real_(symbol, kSonames), wanted_{symbol, runtime::gnu_hash(symbol)} {}

  SixWords get(const void* caller, SixWords own) noexcept {
    const SixWords real = real_.get(caller, reinterpret_cast<void*>(own));
    return GW_LIKELY(real != nullptr) ? real : find_anywhere();
  }

 private:
  GW_COLD SixWords find_anywhere() noexcept;

  runtime::RealFunction<SixWords> real_;
  runtime::WantedSymbol wanted_;
};

#define GW_TENSORFLOW(identifier, op_class, name, symbol) extern constinit TensorFlowFunction g_##identifier;
#include "hooks/tensorflow/tensorflow.def"
#undef GW_TENSORFLOW

}  // namespace gpuwatch::hooks::tensorflow
