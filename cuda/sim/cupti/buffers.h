// SPDX-License-Identifier: Apache-2.0
// Activity records on their way to the client.
//
// Each thread (or, where the client wants that, all together) keeps its records back until the device has
// passed them, and asks the client for buffers on that thread as room runs out. Records reach a buffer when
// they are complete, in no particular order. A full buffer is handed over by the worker thread; a flush hands
// over what is complete, a forced flush everything: what the device has not finished then comes with start
// and end 0. When the client gives no buffer the record is dropped and counted. Thread-safe; the client is
// never called under a lock.
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>

#include "core/clock.h"

namespace gpuwatch::sim {

// `record` as CUDA 13.0 lays it out; the client gets it in the layout of the configured release.
void put_record_bytes(const void* record, size_t size_bytes, Ns complete_at_ns);

template <class Record>
void put_record(const Record& record, Ns complete_at_ns) {
  static_assert(sizeof(Record) % 8 == 0);
  put_record_bytes(&record, sizeof record, complete_at_ns);
}

void set_buffer_callbacks(CUpti_BuffersCallbackRequestFunc request,
                          CUpti_BuffersCallbackCompleteFunc complete);
bool has_buffer_callbacks();

void flush_records(bool forced);
void set_flush_period_ms(uint32_t period_ms);

size_t take_dropped_count();

// Whether each thread fills buffers of its own: the default from 13.0 on.
void use_thread_buffers(bool on);

// The client promised that its buffers come zeroed; else they are zeroed here, as the library does.
void expect_zeroed_buffers(bool on);

}  // namespace gpuwatch::sim
