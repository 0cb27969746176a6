// SPDX-License-Identifier: Apache-2.0
// The recorder: every thread of every process of a run stores fixed-size slots straight into its own chunk of
// a shared file mapping. What is stored is already the trace; nothing is serialised, flushed or joined later.
//
//   enter()  notes the call in the chunk's header (so that a killed job says what every thread waited in)
//   leave()  stores one to three slots and publishes them with one release store of the vector's length
//
// Thread safety: everything may be called from any thread at any time, also in forked and vforked children.
// Signal safety: enter and leave are; a record made by a handler that interrupts a store is dropped and
// counted. Errors: none are returned; what cannot be recorded is counted (lose) and the host job goes on.
// errno is kept. Cost: see docs/performance.md. While dormant or stopped each call costs one relaxed load.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "libinject/base/clock.h"
#include "libinject/base/compiler.h"
#include "libinject/base/text.h"
#include "libinject/trace/loss_reason.h"
#include "libinject/trace/templates.h"
#include "libinject/trace/trace_generated.h"

namespace gpuwatch::record {

enum class State : uint32_t { kDormant = 0, kRecording = 1, kOff = 2 };  // kOff is terminal
extern constinit std::atomic<State> g_state;

inline bool is_recording() noexcept {
  return g_state.load(std::memory_order_relaxed) == State::kRecording;
}
inline bool is_dormant() noexcept {
  return g_state.load(std::memory_order_relaxed) == State::kDormant;
}

// Creates the trace file and starts recording; only on evidence of a training job (a CUDA call, NCCL, a
// loader, an optimizer). Cold, idempotent; false when recording is off or cannot start (one line on
// stderr says why).
bool activate(const char* evidence) noexcept;

// Registers what runs once per trace file, right after activate() created it (operation tables, facts,
// sources). Called from the library's constructor only.
using StartFunction = void (*)() noexcept;
void on_file_start(StartFunction function) noexcept;

struct ThreadRecorder;  // thread_recorder.h

// A call that was entered. False when nothing is recorded (dormant, off, or re-entered from our own code).
struct Scope {
  ThreadRecorder* thread = nullptr;  // null also of enter_wait() in a child that has recorded nothing yet
  uint64_t begin = 0;                // ticks
  uint32_t depth = 0;                // open calls outside this one; without a thread the pid
  uint16_t op = 0;
  explicit operator bool() const noexcept { return begin != 0; }
  uint64_t elapsed_ticks() const noexcept { return base::ticks() - begin; }
};

// `object` is shown with the open call (a loader id, for example).
[[nodiscard]] Scope enter(uint16_t op, uint32_t object = 0) noexcept;

// The same for a wait that is recorded only if it is long: a forked child that has recorded nothing yet
// leaves nothing for a short one (subprocess: a little reading, then exec; 2000 such children took 40 MiB). A
// child that hangs in its very first wait is not seen to.
[[nodiscard]] Scope enter_wait(uint16_t op, uint32_t object) noexcept;

// Ends the call and records it. flags: trace::kFailed, ...; detail slots are counted here.
void leave(const Scope& scope, uint8_t flags, uint32_t a, uint32_t b) noexcept;
void leave(const Scope& scope, uint8_t flags, uint32_t a, uint32_t b,
           const trace::CallDetail& detail) noexcept;
void leave(const Scope& scope, uint8_t flags, uint32_t a, uint32_t b,
           const trace::EventDetail& detail) noexcept;
void leave(const Scope& scope, uint8_t flags, uint32_t a, uint32_t b,
           const trace::CpuDetail& detail) noexcept;
void leave(const Scope& scope, uint8_t flags, uint32_t a, uint32_t b, const trace::IoDetail& detail) noexcept;
void leave(const Scope& scope, uint8_t flags, uint32_t a, uint32_t b, const trace::CpuDetail& detail,
           const trace::IoCounts& counts) noexcept;

// Ends the call without a record: it was shorter than its threshold.
void leave_unrecorded(const Scope& scope) noexcept;

// A record of something that took no time (an index was sent).
void mark(uint16_t op, uint8_t flags, uint32_t a, uint32_t b) noexcept;
void mark(uint16_t op, uint8_t flags, uint32_t a, uint32_t b, const trace::CallDetail& detail) noexcept;
void mark(uint16_t op, uint8_t flags, uint32_t a, uint32_t b, const trace::ShapeDetail& detail) noexcept;

// A record of a call whose begin and end (ticks) were taken elsewhere.
void span(uint16_t op, uint64_t begin, uint64_t end, uint8_t flags, uint32_t a, uint32_t b) noexcept;
void span(uint16_t op, uint64_t begin, uint64_t end, uint8_t flags, uint32_t a, uint32_t b,
          const trace::RangeDetail& detail) noexcept;

// Where the job's code was in a call that began at `begin` (ticks): `text` has a line for each frame.
void stack(uint16_t op, uint64_t begin, uint32_t text) noexcept;

// A worker's stack, seen while this thread waited for it; it stands for `ticks` of that wait.
void worker_stack(uint16_t op, uint64_t begin, uint64_t ticks, uint32_t text, uint32_t pid) noexcept;

// A device record, into the calling thread's chunk. `slot` as laid out in trace.fbs; times in device ns.
void device(const trace::Slot& slot) noexcept;

// --- cold: tables ------------------------------------------------------------------------------------------

// The id of this text in the trace, writing it on first sight. At most 4000 bytes are kept. 0
// when not recording.
uint32_t intern(const char* text, size_t bytes) noexcept;
uint32_t intern(const char* text) noexcept;
uint32_t intern_path(const char* path) noexcept;  // as GPUWATCH_PATHS wants paths written
using WrittenPath = base::Text<1024>;
WrittenPath written_path(const char* path) noexcept;  // the same, for a part of a longer text
uint32_t new_id() noexcept;                           // unique in this file

// Writes down that this process is one of the run, where a forked child has not yet: its first record does,
// too.
void join_recording() noexcept;

// Of this process in its file (field `process` of tables); joins.
uint32_t process_ordinal() noexcept;

// Lays a table down. `process` fields are filled in by the caller from process_ordinal().
#define GW_DECLARE_PUT(table, identifier) void put(const trace::table##Fields& fields) noexcept;
GW_DECLARE_PUT(Operation, "")
GW_DECLARE_PUT(ThreadName, "")
GW_DECLARE_PUT(ClockSample, "")
GW_DECLARE_PUT(Module, "")
GW_DECLARE_PUT(KernelInfo, "")
GW_DECLARE_PUT(StreamInfo, "")
GW_DECLARE_PUT(DeviceInfo, "")
GW_DECLARE_PUT(LoaderInfo, "")
GW_DECLARE_PUT(WorkerInfo, "")
GW_DECLARE_PUT(Loss, "")
GW_DECLARE_PUT(Source, "")
GW_DECLARE_PUT(Fact, "")
GW_DECLARE_PUT(Sample, "")
GW_DECLARE_PUT(ProcessEnd, "")
GW_DECLARE_PUT(Mount, "")
GW_DECLARE_PUT(DeviceSample, "")
GW_DECLARE_PUT(PipelineStage, "")
#undef GW_DECLARE_PUT

// What a source gives from now on. `text` is for people: what is missing, what follows, what to do; null
// where the state says it all (On, Off, Held, Yielded). `holder`: of Held and Yielded.
struct SourceStatus {
  trace::SourceState state;
  const char* text = nullptr;
  const char* holder = nullptr;
};
void put_source(const char* name, const SourceStatus& status) noexcept;  // "cupti", {On}
void put_fact(const char* key, const char* value) noexcept;              // "torch", "2.13.0"
void put_fact(const char* key, uint64_t value) noexcept;

// (ticks, CLOCK_MONOTONIC, CLOCK_REALTIME, device) read together; `read_device_ns` may be null. The tightest
// of five brackets is kept. About 2 us.
void sample_clocks(uint64_t (*read_device_ns)() noexcept) noexcept;

// False in a vforked child, which shares its parent's memory but not its pid. A system call.
bool is_this_process() noexcept;

// Writes how this process ends (exit() calls it; the _exit hook must). Signal safe when nothing
// else is written.
void end_process(trace::EndReason reason, int code) noexcept;

// Counts records that could not be made, by reason (a string literal), or with GW_INCOMPLETE before it
// (loss_reason.h) what was recorded without one of its parts.
void lose(const char* reason, uint64_t count) noexcept;
// As Loss tables: what was counted since the last time. With each sample of the machine and at the end, so
// that a job that is killed has lost no more than the last counts.
void write_losses() noexcept;

// This thread is inside our own code: a signal handler that finds it so must not wait for
// what it interrupted.
bool is_quiet() noexcept;

// While alive, hooks on this thread pass through: our own calls into libc, the loader or Python are not the
// job's. Restores, not clears.
class Quiet {
 public:
  Quiet() noexcept;
  ~Quiet() noexcept;
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  bool before_;
};

}  // namespace gpuwatch::record
