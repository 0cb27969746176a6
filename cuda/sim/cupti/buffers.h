// SPDX-License-Identifier: Apache-2.0
// Activity records on their way to the client.
//
// Each thread keeps its records back until the device has passed them, and asks the client for buffers on
// that thread as room runs out. Records reach a buffer when they are complete, in no particular order. A full
// buffer is handed over by the worker thread; a flush hands over what is complete, a forced flush everything.
// When the client gives no buffer the record is dropped and counted. Thread-safe; the client is never called
// under a lock.
#pragma once

#include <cupti.h>

#include <cstddef>
#include <cstdint>

#include "core/clock.h"

namespace gpuwatch::sim {

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

// Size of a record by its kind, 0 if unknown.
size_t record_size(CUpti_ActivityKind kind);

}  // namespace gpuwatch::sim
