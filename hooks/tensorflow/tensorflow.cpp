// SPDX-License-Identifier: Apache-2.0
// How long a kernel of TensorFlow waits for a batch of tf.data, also inside a graph, where no Python runs.
//
// What is handed on. The symbol's own name holds the types of its parameters, so any version of TensorFlow
// that binds to it passes `this` and one to three pointers: with the hidden argument of a result in memory
// five words at most, all in integer registers, none on the stack. (Seen in the
// headers and symbols of 2.21. With a non-const DatasetBase, as older ones have it, the name is another one,
// which is not taken here.)
// The result's type is in no name: a Status of one word, returned in memory that the caller names in a first,
// hidden argument wherever it has a destructor (tensorflow::Status; absl::Status compiled by GCC), or in a
// register where Clang compiled absl::Status, which newer releases mark trivial_abi. Six integer registers
// handed on and one handed back serve either; which one it is, is told by the hidden argument lying on the
// caller's stack. No TensorFlow header is needed, and nothing of its objects is read but the bool on that
// stack.
//
// Where the function itself is. ld.so binds a caller to us whoever defines the symbol, so it is looked for in
// the caller's own scope, behind us in the global one, in TensorFlow's libraries, and at last in the symbol
// table of every loaded object. A symbol that nobody defines cannot be answered for: without us its caller
// would not have been loaded, or would have ended here with ld.so's words, and so it does.
#include <sys/syscall.h>

#include <atomic>
#include <cstdint>

#include "hooks/evidence.h"
#include "hooks/libc/next_definition.h"
#include "hooks/operations.h"
#include "hooks/python/graph_waits.h"
#include "libinject/base/clock.h"
#include "libinject/base/compiler.h"
#include "libinject/base/syscall.h"
#include "libinject/base/text.h"
#include "libinject/record/recorder.h"
#include "libinject/runtime/config.h"
#include "libinject/runtime/real_function.h"

namespace {

using namespace gpuwatch;
using namespace gpuwatch::hooks;

using SixWords = uintptr_t (*)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);

constexpr const char* kSonames[] = {"libtensorflow_cc.so.2", "libtensorflow_framework.so.2", nullptr};

[[noreturn]] GW_COLD void end_as_the_linker_would(const char* symbol) noexcept {
  base::Text<512> line;
  line.add("symbol lookup error: undefined symbol: ").add(symbol).add('\n');
  base::raw_syscall(SYS_write, 2, base::address(line.c_str()), line.size());
  for (;;) base::raw_syscall(SYS_exit_group, 127);
}

class TensorFlowFunction {
 public:
  explicit constexpr TensorFlowFunction(const char* symbol) noexcept
      : real_(symbol, kSonames), wanted_{symbol, libc::gnu_hash(symbol)} {}

  SixWords get(const void* caller, SixWords own) noexcept {
    const SixWords real = real_.get(caller, reinterpret_cast<void*>(own));
    return GW_LIKELY(real != nullptr) ? real : find_anywhere();
  }

 private:
  GW_COLD SixWords find_anywhere() noexcept {
    void* found = nullptr;
    libc::find_next_definitions(&wanted_, &found, 1);
    if (!found) end_as_the_linker_would(wanted_.name);
    real_.keep(found);
    return reinterpret_cast<SixWords>(found);
  }

  runtime::RealFunction<SixWords> real_;
  libc::Wanted wanted_;
};

#define GW_TEXT(symbol) #symbol
#define GW_TENSORFLOW(identifier, op_class, name, symbol) \
  constinit TensorFlowFunction g_##identifier(GW_TEXT(symbol));
#include "hooks/tensorflow/tensorflow.def"
#undef GW_TENSORFLOW

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
  const SixWords real = g_tensorflow_get_next.get(__builtin_return_address(0), gw_tensorflow_get_next);
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
      g_tensorflow_set_iterator.get(__builtin_return_address(0), gw_tensorflow_set_iterator);
  const bool is_in_memory = is_on_callers_stack(a, __builtin_frame_address(0));
  python::bind_resource(python::t_framework.iterator, reinterpret_cast<const void*>(is_in_memory ? b : a));
  return real(a, b, c, d, e, f);
}

// Status DoCompute(OpKernelContext* context), once for a whole loop. Inside it the iterator is asked through
// its own class, and autograph's loop body runs as a stage of the pipeline (ScanDataset), whose functions
// have local names: waits cannot be told from work there. That this happened can be told.
extern "C" GW_EXPORT uintptr_t gw_tensorflow_reduce_dataset(
    uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e,
    uintptr_t
        f) noexcept(false) __asm__("_ZN10tensorflow4data15ReduceDatasetOp9DoComputeEPNS_15OpKernelContextE");
extern "C" GW_EXPORT uintptr_t gw_tensorflow_reduce_dataset(uintptr_t a, uintptr_t b, uintptr_t c,
                                                            uintptr_t d, uintptr_t e,
                                                            uintptr_t f) noexcept(false) {
  const SixWords real =
      g_tensorflow_reduce_dataset.get(__builtin_return_address(0), gw_tensorflow_reduce_dataset);
  if (is_watched()) note_unseen_loop();
  return real(a, b, c, d, e, f);
}
