// SPDX-License-Identifier: Apache-2.0
// Interposers for the CUDA runtime, one per row of cudart.def. Each reads as: find the real function, note
// the call, call, record. The correlation id that ties the call to device records is left in a thread local
// by CUPTI's callback, which runs inside the real call on this thread.
#include "hooks/cudart/cudart.h"

#include <cuda_runtime_api.h>

#include <type_traits>

#include "cuda/cupti/correlation.h"
#include "cuda/nvml/sampler.h"
#include "hooks/core/evidence.h"
#include "hooks/core/modules.h"
#include "hooks/core/operations.h"
#include "hooks/cupti/cupti.h"
#include "hooks/stacks/stall_stacks.h"
#include "libinject/base/compiler.h"
#include "libinject/context/sampler.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/config.h"
#include "libinject/runtime/own_library.h"
#include "libinject/runtime/real_function.h"
#include "libinject/trace/layout.h"

namespace gpuwatch::hooks::cudart {
namespace {

template <class Function>
using Real = runtime::RealFunction<Function*>;

constinit std::atomic<bool> g_seen{false};

// --- what a row says about its call

constexpr uint8_t kUnknownDirection = 255;

uint32_t low_bits(const void* handle) noexcept {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(handle));
}

trace::CallDetail detail(uint64_t bytes, cudaStream_t stream, uint8_t direction) noexcept {
  return {bytes, 0, low_bits(stream), direction, 0, 0};
}

struct LaunchOn {  // a launch has no detail slot: there are ten thousand a step
  uint32_t stream;
};
LaunchOn launch(cudaStream_t stream) noexcept {
  return {low_bits(stream)};
}

trace::CallDetail on(cudaStream_t stream, uint64_t bytes = 0) noexcept {
  return detail(bytes, stream, kUnknownDirection);
}
// The event joins its record with the waits for it.
trace::EventDetail on_event(cudaEvent_t event, cudaStream_t stream = nullptr) noexcept {
  return {reinterpret_cast<uintptr_t>(event), 0, low_bits(stream), 0};
}
trace::EventDetail on_device() noexcept {
  return on_event(nullptr);
}
// Never 0, which means "not known". Two addresses collide once in 65536; those of twenty steps do not.
uint16_t mixed(const void* address) noexcept {
  const auto mixed =
      static_cast<uint16_t>(reinterpret_cast<uintptr_t>(address) * UINT64_C(0x9e3779b97f4a7c15) >> 48);
  return mixed ? mixed : 1;
}
trace::CallDetail copy(const void* source, uint64_t bytes, cudaMemcpyKind kind,
                       cudaStream_t stream = nullptr) noexcept {
  trace::CallDetail about = detail(bytes, stream, static_cast<uint8_t>(kind));
  if (source) about.mutate_source(mixed(source));
  return about;
}
uint64_t volume(const cudaExtent& extent) noexcept {
  return extent.width * extent.height * extent.depth;
}
template <class Parameters>
uint64_t volume(const Parameters* p) noexcept {
  return p ? volume(p->extent) : 0;
}
const void* source(const cudaMemcpy3DParms* p) noexcept {
  return p ? p->srcPtr.ptr : nullptr;
}

// --- the common path

// torch.profiler needs CUPTI for itself, and only hooked symbols tell when it comes.
bool must_leave_cupti_alone() noexcept {
  return !runtime::is_preloaded() && !runtime::config().asks_for(runtime::Source::kCupti) &&
         runtime::is_loaded("libtorch");
}

// First sight of CUDA in this process: CUPTI has to be there before the job's context is.
GW_COLD void meet_cuda(const void* caller) noexcept {
  if (g_seen.exchange(true)) return;
  constexpr record::SourceStatus kNotPreloaded = {
      trace::SourceState::NotPreloaded,
      "not preloaded: CUDA calls are recorded as far as CUPTI reports them; start the job with LD_PRELOAD"};
  constexpr record::SourceStatus kOn = {trace::SourceState::On};
  record::put_source("cuda", runtime::is_preloaded() ? kOn : kNotPreloaded);
  write_modules();  // CUDA may have been loaded after recording began
  if (must_leave_cupti_alone()) {
    record::put_source(
        "cupti", {trace::SourceState::Off,
                  "off, to leave CUPTI to torch.profiler, which cannot be noticed without LD_PRELOAD; start "
                  "the job with LD_PRELOAD, or set GPUWATCH_TRACE=cuda,cupti"});
  } else {
    hooks::cupti::on_cuda_evidence(caller);
  }
  stacks::prepare_native_stacks();
  if (runtime::config().is_on(runtime::Source::kSystem)) cuda::nvml::prepare();
}

inline bool is_watched(const void* caller) noexcept {
  if (GW_LIKELY(record::is_recording())) {
    if (GW_UNLIKELY(!g_seen.load(std::memory_order_relaxed))) {
      if (!runtime::config().is_on(runtime::Source::kCuda)) return false;
      meet_cuda(caller);
    }
    return true;
  }
  if (!record::is_dormant() || !runtime::config().is_on(runtime::Source::kCuda)) return false;
  if (!begin_recording("cuda")) return false;
  meet_cuda(caller);
  return true;
}

inline void finish(const record::Scope& scope, uint8_t flags, const LaunchOn& where, const void*) noexcept {
  record::leave(scope, flags, cuda::t_correlation, where.stream);
}
template <class Detail>
inline void finish(const record::Scope& scope, uint8_t flags, Detail about, const void* caller) noexcept {
  about.mutate_caller(reinterpret_cast<uintptr_t>(caller));
  record::leave(scope, flags, cuda::t_correlation, about.stream(), about);
}

// The thread is inside a hooked symbol: CUPTI's callback leaves the correlation id here and records nothing.
class InSymbolHook {
 public:
  InSymbolHook() noexcept {
    ++cuda::t_in_symbol_hook;
    cuda::t_correlation = 0;
  }
  ~InSymbolHook() noexcept { --cuda::t_in_symbol_hook; }
};

template <Op op, class Describe, class Function, class... Args>
inline cudaError_t intercept(Real<Function>& real, const void* own, const void* caller, Describe describe,
                             Args... args) noexcept {
  using About = decltype(describe());
  static_assert(std::is_same_v<About, LaunchOn> ? trace::launches_kernels(class_of(op)) : carries<About>(op));
  Function* function = real.get(caller, own);
  // No CUDA runtime is loaded: the caller looked the name up in the global scope and found us.
  if (GW_UNLIKELY(!function)) return cudaErrorInitializationError;
  if (!is_watched(caller)) return function(args...);
  const record::Scope scope = record::enter(id(op));
  if (!scope) return function(args...);
  const InSymbolHook in_hook;
  const cudaError_t result = function(args...);
  finish(scope, result == cudaSuccess ? 0 : trace::kFailed, describe(), caller);
  if constexpr (trace::stalls_on_device(class_of(op))) {
    stacks::note_native_training_thread();
    stacks::maybe_record_stack(scope);
  }
  if constexpr (class_of(op) == trace::OpClass::Sync) context::maybe_sample(scope.begin);
  return result;
}

using Word = uintptr_t;
using WordFunction = cudaError_t(Word, Word, Word, Word, Word, Word, Word, Word, Word, Word);

}  // namespace

void on_driver_start() noexcept {
  if (g_seen.load(std::memory_order_relaxed) || !runtime::config().is_on(runtime::Source::kCuda)) return;
  if (begin_recording("cuda")) meet_cuda(GW_CALLER);
}

void on_recording() noexcept {
  if (!runtime::config().is_on(runtime::Source::kCuda)) record::put_source("cuda", {trace::SourceState::Off});
}

}  // namespace gpuwatch::hooks::cudart

// --- the interposers, from the table

using namespace gpuwatch;
using namespace gpuwatch::hooks::cudart;
using gpuwatch::hooks::Op;

#define GW_UNPACK(...) __VA_ARGS__
#define GW_COMMA_UNPACK(...) __VA_OPT__(, ) __VA_ARGS__

#define GW_INTERPOSE(symbol, op, params, args, about)                                 \
  extern "C" GW_EXPORT cudaError_t symbol params;                                     \
  extern "C" GW_EXPORT cudaError_t symbol params {                                    \
    static constinit Real<cudaError_t params> real(#symbol);                          \
    return intercept<Op::op>(real, reinterpret_cast<const void*>(&symbol), GW_CALLER, \
                             [&]() noexcept { return about; } GW_COMMA_UNPACK args);  \
  }
#define GW_CUDART_NONE(name, params, args, about) GW_INTERPOSE(name, name, params, args, about)
#define GW_CUDART_PTSZ(name, params, args, about) \
  GW_INTERPOSE(name, name, params, args, about)   \
  GW_INTERPOSE(name##_ptsz, name, params, args, about)
#define GW_CUDART_PTDS(name, params, args, about) \
  GW_INTERPOSE(name, name, params, args, about)   \
  GW_INTERPOSE(name##_ptds, name, params, args, about)
#define GW_CUDART(name, variants, op_class, params, args, about) \
  GW_CUDART_##variants(name, params, args, about)

// Ten words go through whatever the job's version of the function takes: registers first, then what lies on
// the caller's stack, which the callee ignores if it takes fewer. The C++ name differs, so that the header's
// declaration does not clash; the assembler name is the API's.
#define GW_INTERPOSE_WORDS(symbol, op)                                                                       \
  GW_EXPORT cudaError_t gw_##symbol(Word, Word, Word, Word, Word, Word, Word, Word, Word,                    \
                                    Word) __asm__(#symbol);                                                  \
  GW_EXPORT cudaError_t gw_##symbol(Word a, Word b, Word c, Word d, Word e, Word f, Word g, Word h, Word i,  \
                                    Word j) {                                                                \
    static constinit Real<WordFunction> real(#symbol);                                                       \
    return intercept<Op::op>(                                                                                \
        real, reinterpret_cast<const void*>(&gw_##symbol), GW_CALLER, []() noexcept { return on(nullptr); }, \
        a, b, c, d, e, f, g, h, i, j);                                                                       \
  }
#define GW_CUDART_WORDS_NONE(name) GW_INTERPOSE_WORDS(name, name)
#define GW_CUDART_WORDS_PTSZ(name) \
  GW_INTERPOSE_WORDS(name, name)   \
  GW_INTERPOSE_WORDS(name##_ptsz, name)
#define GW_CUDART_WORDS(name, variants, op_class) GW_CUDART_WORDS_##variants(name)

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // copies of arrays that programs may still make
#include "hooks/cudart/cudart.def"
