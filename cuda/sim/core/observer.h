// SPDX-License-Identifier: Apache-2.0
// What the CUPTI stand-in is told. Called on the thread that made the call (or, for work behind a host
// function, on the service thread), never under the timeline's lock. One observer a process.
#pragma once

#include <cstdint>

#include "op.h"

namespace gpuwatch::sim {

enum class ApiDomain : uint8_t { kDriver = 1, kRuntime = 2 };  // CUPTI's callback domains

struct ApiEvent {
  ApiDomain domain;
  uint32_t cbid;
  const char* name;
  const char* symbol;  // kernel of a launch, else null
  uint32_t correlation;
  uint32_t thread_id;
  uint64_t client_data;  // kept from entry to exit
  Ns begin_ns;
  Ns end_ns;
  int result;
};

enum class SyncKind : uint8_t { kEvent = 1, kStreamWaitEvent = 2, kStream = 3, kContext = 4 };  // CUPTI's

struct SyncEvent {
  SyncKind kind;
  uint32_t device;
  uint32_t stream;
  uint32_t event;
  uint32_t correlation;
  Ns begin_ns;
  Ns end_ns;
};

class Observer {
 public:
  virtual void on_api_enter(ApiEvent& event) = 0;
  virtual void on_api_exit(ApiEvent& event) = 0;
  virtual void on_op(const Op& op) = 0;
  virtual void on_sync(const SyncEvent& event) = 0;
  virtual void on_queue_full(uint32_t correlation, Ns begin_ns, Ns end_ns) = 0;

 protected:
  ~Observer() = default;
};

void set_observer(Observer* observer);
Observer* current_observer();

}  // namespace gpuwatch::sim
