// SPDX-License-Identifier: Apache-2.0
// Interposers for NCCL, one per row of nccl.def: find the real function, note the call, call, record. Defined
// under our own names and exported under NCCL's, so that nccl.h is not needed. Unseen here: an NCCL that was
// linked statically into the framework (conda builds of PyTorch, XLA).
#include "hooks/nccl/nccl.h"

#include "hooks/core/evidence.h"
#include "hooks/core/operations.h"
#include "hooks/nccl/nccl_api.h"
#include "libinject/base/compiler.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/config.h"
#include "libinject/runtime/real_function.h"
#include "libinject/trace/layout.h"

namespace gpuwatch::hooks::nccl {
namespace {

constexpr uint8_t kNoDirection = 255;

constinit std::atomic<bool> g_seen{false};

uint32_t low_bits(const void* handle) noexcept {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(handle));
}

struct About {
  uint32_t comm;
  uint32_t stream;
  uint64_t bytes;
};
About data(size_t count, DataType type, Comm comm, Stream stream) noexcept {
  return {low_bits(comm), low_bits(stream), count * size_of(type)};
}
About life(Comm comm) noexcept {
  return {low_bits(comm), 0, 0};
}
// Evaluated after the call: the new communicator is there, unless the call failed before it wrote one.
About life(Comm* made) noexcept {
  return {made ? low_bits(*made) : 0, 0, 0};
}
About group() noexcept {
  return {0, 0, 0};
}

GW_COLD void meet_nccl() noexcept {
  if (!g_seen.exchange(true)) record::put_source("nccl", {trace::SourceState::On});
}

inline bool is_watched() noexcept {
  if (GW_UNLIKELY(!record::is_recording())) {
    if (!record::is_dormant() || !runtime::config().is_on(runtime::Source::kNccl)) return false;
    if (!begin_recording("nccl")) return false;
  }
  if (GW_UNLIKELY(!g_seen.load(std::memory_order_relaxed))) {
    if (!runtime::config().is_on(runtime::Source::kNccl)) return false;
    meet_nccl();
  }
  return true;
}

template <class Function, class Describe, class... Arguments>
inline Result intercept(Op op, runtime::RealFunction<Function*>& real, const void* own, const void* caller,
                        Describe describe, Arguments... arguments) noexcept {
  Function* function = real.get(caller, own);
  if (GW_UNLIKELY(!function)) return kInternalError;
  if (!is_watched()) return function(arguments...);
  const record::Scope scope = record::enter(id(op));
  if (!scope) return function(arguments...);
  const Result result = function(arguments...);
  const uint8_t flags = result == kSuccess || result == kInProgress ? 0 : trace::kFailed;
  const About about = describe(flags != 0);
  record::leave(
      scope, flags, about.comm, about.stream,
      trace::CallDetail(about.bytes, reinterpret_cast<uintptr_t>(caller), about.stream, kNoDirection, 0, 0));
  return result;
}

}  // namespace

void on_recording() noexcept {
  if (!runtime::config().is_on(runtime::Source::kNccl)) record::put_source("nccl", {trace::SourceState::Off});
}

}  // namespace gpuwatch::hooks::nccl

using namespace gpuwatch::hooks::nccl;
using gpuwatch::hooks::Op;

#define GW_COMMA_UNPACK(...) __VA_OPT__(, ) __VA_ARGS__

// A failed call's outputs are not looked at.
#define GW_NCCL(name, params, args, op_class, about)                                                       \
  extern "C" GW_EXPORT Result gw_nccl_##name params __asm__(#name);                                        \
  extern "C" GW_EXPORT Result gw_nccl_##name params {                                                      \
    static_assert(gpuwatch::hooks::carries<gpuwatch::trace::CallDetail>(Op::name));                        \
    static constinit gpuwatch::runtime::RealFunction<Result(*) params> real(#name);                        \
    return intercept(Op::name, real, reinterpret_cast<const void*>(&gw_nccl_##name), GW_CALLER,            \
                     [&](bool failed) noexcept { return failed ? group() : about; } GW_COMMA_UNPACK args); \
  }
#include "hooks/nccl/nccl.def"
#undef GW_NCCL
