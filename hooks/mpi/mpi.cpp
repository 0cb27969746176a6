// SPDX-License-Identifier: Apache-2.0
// Interposers for MPI, one per row of mpi.def: find the real function, call, and record what kept the thread
// for longer than the threshold of libc's waits. They give no evidence of training: a program that only
// computes with MPI leaves no trace. Under the switch of the source `io`. Thread safety: any. Signal safety:
// none. Errors: without the real function MPI_ERR_OTHER. Not noexcept: pthread_cancel may unwind through a
// call, as through libc's.
#include "hooks/core/operations.h"
#include "hooks/libc/libc.h"
#include "hooks/libc/timed.h"
#include "hooks/stacks/stall_stacks.h"
#include "libinject/base/compiler.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/real_function.h"
#include "libinject/trace/layout.h"

namespace gpuwatch::hooks::mpi {
namespace {

using Word = uintptr_t;  // what one argument has in a register or on the stack

constexpr int kErrorOther = 15;  // of MPICH; 16 in Open MPI: neither is MPI_SUCCESS
constexpr uint8_t kNoDirection = 255;

template <class Function, class... Arguments>
inline int intercept(Op op, runtime::RealFunction<Function*>& real, const void* own, const void* caller,
                     Arguments... arguments) {
  Function* function = real.get(caller, own);
  if (GW_UNLIKELY(!function)) return kErrorOther;
  if (!libc::is_watching()) return function(arguments...);
  const record::Scope scope = record::enter(id(op));
  const int result = function(arguments...);
  if (GW_UNLIKELY(!scope)) return result;
  if (scope.elapsed_ticks() < libc::g_threshold_ticks.load(std::memory_order_relaxed)) {
    record::leave_unrecorded(scope);
    return result;
  }
  record::leave(scope, result == 0 ? 0 : trace::kFailed, 0, 0,
                trace::CallDetail(0, reinterpret_cast<uintptr_t>(caller), 0, kNoDirection, 0, 0));
  stacks::maybe_record_stack(scope);
  return result;
}

}  // namespace
}  // namespace gpuwatch::hooks::mpi

using namespace gpuwatch::hooks::mpi;
using gpuwatch::hooks::Op;

#define GW_UNPACK(...) __VA_ARGS__

#define GW_MPI(name, params, args, op_class)                                                   \
  extern "C" GW_EXPORT int gw_mpi_##name params __asm__(#name);                                \
  extern "C" GW_EXPORT int gw_mpi_##name params {                                              \
    static_assert(gpuwatch::hooks::carries<gpuwatch::trace::CallDetail>(Op::name));            \
    static constinit gpuwatch::runtime::RealFunction<int(*) params> real(#name);               \
    return intercept(Op::name, real, reinterpret_cast<const void*>(&gw_mpi_##name), GW_CALLER, \
                     GW_UNPACK args);                                                          \
  }
#include "hooks/mpi/mpi.def"
#undef GW_MPI
