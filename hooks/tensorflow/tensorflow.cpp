// SPDX-License-Identifier: Apache-2.0
// How long a kernel of TensorFlow waits for a batch of tf.data, also inside a graph, where no Python runs.
//
// Calling convention. The symbol's mangled name holds the types of its parameters, so each version of
// TensorFlow that binds to it passes `this` and one to three pointers; with the hidden argument of a result
// in memory that is at most five words, all in integer registers, none on the stack. (As in the headers and
// symbols of 2.21. Older versions with a non-const DatasetBase have another name, which is not hooked.) The
// type of the result is not part of the name: it is a Status of one word, returned in memory that the caller
// names in a hidden first argument if the type has a destructor (tensorflow::Status; absl::Status compiled
// by GCC), or in a register if Clang compiled absl::Status, which newer releases mark trivial_abi.
// Forwarding six integer registers and returning one fits both; the hidden argument is recognized by
// pointing into the caller's stack. No TensorFlow header is needed, and of its objects only the bool on that
// stack is read.
#include <atomic>
#include <cstdint>

#include "hooks/core/evidence.h"
#include "hooks/core/operations.h"
#include "hooks/python/frameworks/tf_graph_waits.h"
#include "hooks/tensorflow/pipeline_model.h"
#include "hooks/tensorflow/tensorflow_function.h"
#include "libinject/base/clock.h"
#include "libinject/base/compiler.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/config.h"

namespace {

using namespace gpuwatch;
using namespace gpuwatch::hooks;
using tensorflow::SixWords;

// Whether the address lies in a frame of this thread above ours; stacks are mapped without a gap.
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

GW_COLD void note_unseen_loop() noexcept {
  static constinit std::atomic<bool> is_said{false};
  if (!is_said.exchange(true, std::memory_order_relaxed))
    record::put_source("tf.data loop",
                       {trace::SourceState::Unavailable,
                        "a tf.function or Dataset.reduce iterates a dataset inside one kernel: waits for its "
                        "data are not recorded; iterate it in Python to see them"});
}

}  // namespace

// Status GetNext(OpKernelContext* context, std::vector<Tensor>* out, bool* end_of_sequence)
extern "C" GW_EXPORT uintptr_t
gw_tensorflow_get_next(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, uintptr_t f) noexcept(false) __asm__(
    "_ZN10tensorflow4data16IteratorResource7GetNextEPNS_15OpKernelContextEPSt6vectorINS_6TensorESaIS5_EEPb");
extern "C" GW_EXPORT uintptr_t gw_tensorflow_get_next(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d,
                                                      uintptr_t e, uintptr_t f) noexcept(false) {
  const SixWords real =
      tensorflow::g_tensorflow_get_next.get(__builtin_return_address(0), gw_tensorflow_get_next);
  const void* const frame = __builtin_frame_address(0);
  const bool is_in_memory = is_on_callers_stack(a, frame);
  const uintptr_t resource = is_in_memory ? b : a;
  const uintptr_t end_of_sequence = is_in_memory ? e : d;
  if (!is_watched()) return real(a, b, c, d, e, f);
  const auto* object = reinterpret_cast<const void*>(resource);
  const uint64_t begin = base::ticks();
  tensorflow::t_asked_resource = object;
  const uintptr_t status = real(a, b, c, d, e, f);
  tensorflow::t_asked_resource = nullptr;
  const uint64_t end = base::ticks();
  const bool is_known = is_on_callers_stack(end_of_sequence, frame);
  const bool is_exhausted = is_known && *reinterpret_cast<const volatile uint8_t*>(end_of_sequence) == 1;
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
      tensorflow::g_tensorflow_set_iterator.get(__builtin_return_address(0), gw_tensorflow_set_iterator);
  const bool is_in_memory = is_on_callers_stack(a, __builtin_frame_address(0));
  python::bind_resource(python::t_framework.iterator, reinterpret_cast<const void*>(is_in_memory ? b : a));
  return real(a, b, c, d, e, f);
}

// Status DoCompute(OpKernelContext* context), once for a whole loop. Inside it the iterator is called
// through its own class, and the loop body of autograph runs as a stage of the pipeline (ScanDataset), whose
// functions have no exported names: waits for data cannot be separated from work there. Only the fact that
// it happened is recorded.
extern "C" GW_EXPORT uintptr_t gw_tensorflow_reduce_dataset(
    uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e,
    uintptr_t
        f) noexcept(false) __asm__("_ZN10tensorflow4data15ReduceDatasetOp9DoComputeEPNS_15OpKernelContextE");
extern "C" GW_EXPORT uintptr_t gw_tensorflow_reduce_dataset(uintptr_t a, uintptr_t b, uintptr_t c,
                                                            uintptr_t d, uintptr_t e,
                                                            uintptr_t f) noexcept(false) {
  const SixWords real =
      tensorflow::g_tensorflow_reduce_dataset.get(__builtin_return_address(0), gw_tensorflow_reduce_dataset);
  if (is_watched()) note_unseen_loop();
  return real(a, b, c, d, e, f);
}
