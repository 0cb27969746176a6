// SPDX-License-Identifier: Apache-2.0
// How long a kernel of TensorFlow waits for a batch of tf.data, also inside a graph, where no Python runs.
// Both functions are members that return a Status by value: in memory that the caller names in a first,
// hidden argument, or in a register where the class is marked trivial_abi. Six integer registers handed on
// and one handed back serve either convention; which one it is, is told by the hidden argument lying on the
// caller's stack. No TensorFlow header is needed, and nothing of its objects is read but the bool on that
// stack.
#include <cstdint>

#include "hooks/evidence.h"
#include "hooks/operations.h"
#include "hooks/python/graph_waits.h"
#include "libinject/base/clock.h"
#include "libinject/base/compiler.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/config.h"
#include "libinject/runtime/real_function.h"

namespace {

using namespace gpuwatch;
using namespace gpuwatch::hooks;

using SixWords = uintptr_t (*)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);

#define GW_TEXT(symbol) #symbol
#define GW_TENSORFLOW(identifier, op_class, name, symbol) \
  constexpr const char* k_##identifier = GW_TEXT(symbol);
#include "hooks/tensorflow/tensorflow.def"
#undef GW_TENSORFLOW

constexpr const char* kSonames[] = {"libtensorflow_cc.so.2", "libtensorflow_framework.so.2", nullptr};
constinit runtime::RealFunction<SixWords> g_get_next(k_tensorflow_get_next, kSonames);
constinit runtime::RealFunction<SixWords> g_set_iterator(k_tensorflow_set_iterator, kSonames);

// In a frame of this thread that called us: from ours up, stacks are mapped without a gap.
bool is_on_callers_stack(uintptr_t address, const void* frame) noexcept {
  constexpr uintptr_t kNear = 2048;  // the kernel's own frame; its callers' lie above
  const auto own = reinterpret_cast<uintptr_t>(frame);
  return address > own && address - own < kNear;
}

bool is_watched() noexcept {
  if (GW_LIKELY(record::is_recording())) return true;
  return record::is_dormant() && runtime::config().is_on(runtime::Source::kPython) &&
         begin_recording("tf.data");
}

}  // namespace

// Status GetNext(OpKernelContext* context, std::vector<Tensor>* out, bool* end_of_sequence)
extern "C" GW_EXPORT uintptr_t
gw_tensorflow_get_next(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f) noexcept(false) __asm__(
    "_ZN10tensorflow4data16IteratorResource7GetNextEPNS_15OpKernelContextEPSt6vectorINS_6TensorESaIS5_EEPb");
extern "C" GW_EXPORT uintptr_t gw_tensorflow_get_next(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d,
                                                      uintptr_t e, uintptr_t f) noexcept(false) {
  const SixWords real =
      g_get_next.get(__builtin_return_address(0), reinterpret_cast<void*>(gw_tensorflow_get_next));
  const void* const frame = __builtin_frame_address(0);
  const bool is_in_memory = is_on_callers_stack(a, frame);
  const uintptr_t resource = is_in_memory ? b : a;
  const uintptr_t end_of_sequence = is_in_memory ? e : d;
  if (!is_watched()) return real(a, b, c, d, e, f);
  const uint64_t begin = base::ticks();
  const uintptr_t status = real(a, b, c, d, e, f);
  const uint64_t end = base::ticks();
  const bool is_known = is_on_callers_stack(end_of_sequence, frame);
  const bool is_exhausted = is_known && *reinterpret_cast<const volatile uint8_t*>(end_of_sequence) == 1;
  const auto* object = reinterpret_cast<const void*>(resource);
  if (python::t_framework.waiting) {
    python::t_framework.is_exhausted = is_exhausted;
  } else if (!python::is_waited_for(object)) {
    python::note_graph_wait(object, begin, end, is_exhausted);
  }
  return status;
}

// Status SetIteratorFromDataset(OpKernelContext* context, const DatasetBase* dataset)
extern "C" GW_EXPORT uintptr_t
gw_tensorflow_set_iterator(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f) noexcept(false) __asm__(
    "_ZN10tensorflow4data16IteratorResource22SetIteratorFromDatasetEPNS_15OpKernelContextEPKNS0_"
    "11DatasetBaseE");
extern "C" GW_EXPORT uintptr_t gw_tensorflow_set_iterator(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d,
                                                          uintptr_t e, uintptr_t f) noexcept(false) {
  const SixWords real =
      g_set_iterator.get(__builtin_return_address(0), reinterpret_cast<void*>(gw_tensorflow_set_iterator));
  const bool is_in_memory = is_on_callers_stack(a, __builtin_frame_address(0));
  python::bind_resource(python::t_framework.iterator, reinterpret_cast<const void*>(is_in_memory ? b : a));
  return real(a, b, c, d, e, f);
}
