// SPDX-License-Identifier: Apache-2.0
#include "session.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "buffers.h"
#include "cupti_clock.h"

namespace gpuwatch::sim {

namespace {

thread_local std::map<CUpti_ExternalCorrelationKind, std::vector<uint64_t>> t_external;

template <class Record>
Record blank(CUpti_ActivityKind kind) {
  Record record;
  std::memset(&record, 0, sizeof record);
  record.kind = kind;
  return record;
}

uint8_t copy_kind(const Op& op) {
  switch (op.kind) {
    case OpKind::kCopyH2D:
      return CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
    case OpKind::kCopyD2H:
      return CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
    case OpKind::kCopyP2P:
      return CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
    default:
      return CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
  }
}

// Fields that every record of device work has.
template <class Record>
Record device_record(CUpti_ActivityKind kind, const Op& op, uint32_t correlation) {
  auto record = blank<Record>(kind);
  record.start = cupti_time(op.start_ns);
  record.end = cupti_time(op.end_ns);
  record.deviceId = op.device;
  record.contextId = op.device + 1;
  record.streamId = op.stream;
  record.correlationId = correlation;
  record.graphId = op.graph_id;
  return record;
}

void put_kernel(const Op& op, uint32_t correlation, CUpti_ActivityKind kind) {
  auto r = device_record<CUpti_ActivityKernel10>(kind, op, correlation);
  r.completed = r.end;
  r.gridX = static_cast<int32_t>(op.grid[0]);
  r.gridY = static_cast<int32_t>(op.grid[1]);
  r.gridZ = static_cast<int32_t>(op.grid[2]);
  r.blockX = static_cast<int32_t>(op.block[0]);
  r.blockY = static_cast<int32_t>(op.block[1]);
  r.blockZ = static_cast<int32_t>(op.block[2]);
  r.dynamicSharedMemory = static_cast<int32_t>(op.shared_bytes);
  r.registersPerThread = 32;
  r.gridId = op.correlation;
  r.name = op.kernel->name();
  r.graphNodeId = op.graph_node;
  put_record(r, op.end_ns);
}

template <class Record>
void describe_copy(Record& r, const Op& op) {
  r.copyKind = copy_kind(op);
  r.srcKind = static_cast<uint8_t>(op.src);
  r.dstKind = static_cast<uint8_t>(op.dst);
  r.flags = op.async ? CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC : 0;
  r.bytes = op.bytes;
  r.graphNodeId = op.graph_node;
}

void put_copy(const Op& op, uint32_t correlation) {
  auto r = device_record<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY, op, correlation);
  describe_copy(r, op);
  r.copyCount = 1;
  put_record(r, op.end_ns);
}

void put_peer_copy(const Op& op, uint32_t correlation) {
  auto r = device_record<CUpti_ActivityMemcpyPtoP4>(CUPTI_ACTIVITY_KIND_MEMCPY2, op, correlation);
  describe_copy(r, op);
  put_record(r, op.end_ns);
}

void put_memset(const Op& op, uint32_t correlation) {
  auto r = device_record<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET, op, correlation);
  r.value = op.memset_value;
  r.bytes = op.bytes;
  r.flags = op.async ? CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC : 0;
  r.memoryKind = static_cast<uint16_t>(op.dst);
  r.graphNodeId = op.graph_node;
  put_record(r, op.end_ns);
}

void put_graph(const Op& op, uint32_t correlation) {
  auto r = blank<CUpti_ActivityGraphTrace2>(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  r.correlationId = correlation;
  r.start = cupti_time(op.start_ns);
  r.end = cupti_time(op.end_ns);
  r.deviceId = r.endDeviceId = op.device;
  r.contextId = r.endContextId = op.device + 1;
  r.graphId = op.graph_id;
  r.streamId = op.stream;
  put_record(r, op.end_ns);
}

// A forked child has no worker thread and no device: nothing is recorded there.
void forget_in_child() {
  set_observer(nullptr);
}

}  // namespace

Session& Session::instance() {
  static Session* session = new Session;
  return *session;
}

Session::Session() {
  pthread_atfork(nullptr, nullptr, forget_in_child);
}

void Session::on_api_enter(ApiEvent& event) {
  const auto& flags = event.domain == ApiDomain::kRuntime ? runtime_callbacks_ : driver_callbacks_;
  if (flags[event.cbid].load(std::memory_order_relaxed)) call_subscriber(event, CUPTI_API_ENTER);
  if (kind_enabled(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)) put_external_records(event);
}

void Session::on_api_exit(ApiEvent& event) {
  const bool runtime = event.domain == ApiDomain::kRuntime;
  if ((runtime ? runtime_records_ : driver_records_)[event.cbid].load(std::memory_order_relaxed))
    put_api_record(event);
  if ((runtime ? runtime_callbacks_ : driver_callbacks_)[event.cbid].load(std::memory_order_relaxed)) {
    call_subscriber(event, CUPTI_API_EXIT);
  }
}

void Session::call_subscriber(ApiEvent& event, CUpti_ApiCallbackSite site) {
  const CUpti_CallbackFunc callback = callback_.load(std::memory_order_acquire);
  if (!callback) return;
  CUpti_CallbackData data;
  std::memset(&data, 0, sizeof data);
  data.callbackSite = site;
  data.functionName = event.name;
  data.functionReturnValue = site == CUPTI_API_EXIT ? &event.result : nullptr;
  data.symbolName = event.symbol;
  data.contextUid = 1;
  data.correlationData = &event.client_data;
  data.correlationId = event.correlation;
  callback(user_data_, static_cast<CUpti_CallbackDomain>(event.domain), event.cbid, &data);
}

void Session::put_api_record(const ApiEvent& event) {
  const auto kind =
      event.domain == ApiDomain::kRuntime ? CUPTI_ACTIVITY_KIND_RUNTIME : CUPTI_ACTIVITY_KIND_DRIVER;
  auto r = blank<CUpti_ActivityAPI>(kind);
  r.cbid = event.cbid;
  r.start = cupti_time(event.begin_ns);
  r.end = cupti_time(event.end_ns);
  r.processId = static_cast<uint32_t>(getpid());
  r.threadId = system_thread_ids_ ? event.thread_id : static_cast<uint32_t>(pthread_self());
  r.correlationId = event.correlation;
  r.returnValue = static_cast<uint32_t>(event.result);
  put_record(r, event.end_ns);
}

void Session::put_external_records(const ApiEvent& event) {
  for (const auto& [kind, ids] : t_external) {
    if (ids.empty()) continue;
    auto r = blank<CUpti_ActivityExternalCorrelation>(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
    r.externalKind = kind;
    r.externalId = ids.back();
    r.correlationId = event.correlation;
    put_record(r, 0);
  }
}

void Session::on_op(const Op& op) {
  const uint32_t correlation = visible(op.correlation);
  const bool whole_graphs = kind_enabled(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  if (op.kind == OpKind::kGraph) {
    if (whole_graphs) put_graph(op, correlation);
    return;
  }
  if (op.graph_id && whole_graphs) return;
  switch (op.kind) {
    case OpKind::kKernel:
      if (kind_enabled(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)) {
        put_kernel(op, correlation, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
      } else if (kind_enabled(CUPTI_ACTIVITY_KIND_KERNEL)) {
        put_kernel(op, correlation, CUPTI_ACTIVITY_KIND_KERNEL);
      }
      break;
    case OpKind::kCopyH2D:
    case OpKind::kCopyD2H:
    case OpKind::kCopyD2D:
      if (kind_enabled(CUPTI_ACTIVITY_KIND_MEMCPY)) put_copy(op, correlation);
      break;
    case OpKind::kCopyP2P:
      if (kind_enabled(CUPTI_ACTIVITY_KIND_MEMCPY2)) put_peer_copy(op, correlation);
      break;
    case OpKind::kMemset:
      if (kind_enabled(CUPTI_ACTIVITY_KIND_MEMSET)) put_memset(op, correlation);
      break;
    default:
      break;
  }
}

void Session::on_sync(const SyncEvent& event) {
  if (!kind_enabled(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION)) return;
  auto r = blank<CUpti_ActivitySynchronization2>(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
  r.type = static_cast<CUpti_ActivitySynchronizationType>(event.kind);
  r.start = cupti_time(event.begin_ns);
  r.end = cupti_time(event.end_ns);
  r.correlationId = visible(event.correlation);
  r.contextId = event.device + 1;
  const bool has_stream = event.kind == SyncKind::kStream || event.kind == SyncKind::kStreamWaitEvent;
  r.streamId = has_stream ? event.stream : CUPTI_SYNCHRONIZATION_INVALID_VALUE;
  r.cudaEventId = event.event ? event.event : CUPTI_SYNCHRONIZATION_INVALID_VALUE;
  put_record(r, event.end_ns);
}

void Session::on_queue_full(uint32_t correlation, Ns begin_ns, Ns end_ns) {
  if (!kind_enabled(CUPTI_ACTIVITY_KIND_OVERHEAD)) return;
  auto r = blank<CUpti_ActivityOverhead3>(CUPTI_ACTIVITY_KIND_OVERHEAD);
  r.overheadKind = CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL;
  r.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  r.objectId.pt.processId = static_cast<uint32_t>(getpid());
  r.objectId.pt.threadId =
      system_thread_ids_ ? static_cast<uint32_t>(gettid()) : static_cast<uint32_t>(pthread_self());
  r.start = cupti_time(begin_ns);
  r.end = cupti_time(end_ns);
  r.correlationId = visible(correlation);
  put_record(r, end_ns);
}

CUptiResult Session::subscribe(CUpti_CallbackFunc callback, void* user_data, const char* name,
                               CUpti_SubscriberHandle* out) {
  std::lock_guard lock(mutex_);
  if (subscribed_) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  subscribed_ = true;
  name_ = name ? name : "";
  user_data_ = user_data;
  callback_.store(callback, std::memory_order_release);
  *out = reinterpret_cast<CUpti_SubscriberHandle>(this);
  set_observer(this);
  return CUPTI_SUCCESS;
}

CUptiResult Session::unsubscribe(CUpti_SubscriberHandle handle) {
  std::lock_guard lock(mutex_);
  if (!subscribed_ || handle != reinterpret_cast<CUpti_SubscriberHandle>(this))
    return CUPTI_ERROR_INVALID_PARAMETER;
  subscribed_ = false;
  callback_ = nullptr;
  for (auto& flag : runtime_callbacks_) flag = false;
  for (auto& flag : driver_callbacks_) flag = false;
  update_ids_wanted();
  return CUPTI_SUCCESS;
}

bool Session::is_subscriber(CUpti_SubscriberHandle handle) {
  std::lock_guard lock(mutex_);
  return subscribed_ && handle == reinterpret_cast<CUpti_SubscriberHandle>(this);
}

std::string Session::subscriber_name() {
  std::lock_guard lock(mutex_);
  return name_;
}

void Session::enable_callback(CUpti_CallbackDomain domain, uint32_t cbid, bool on) {
  if (cbid >= kMaxCallbackId) return;
  if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) runtime_callbacks_[cbid] = on;
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API) driver_callbacks_[cbid] = on;
  update_ids_wanted();
}

bool Session::callback_enabled(CUpti_CallbackDomain domain, uint32_t cbid) const {
  if (cbid >= kMaxCallbackId) return false;
  if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) return runtime_callbacks_[cbid];
  return domain == CUPTI_CB_DOMAIN_DRIVER_API && driver_callbacks_[cbid];
}

void Session::enable_domain(CUpti_CallbackDomain domain, bool on) {
  for (uint32_t cbid = 1; cbid < kMaxCallbackId; ++cbid) {
    if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) runtime_callbacks_[cbid] = on;
    if (domain == CUPTI_CB_DOMAIN_DRIVER_API) driver_callbacks_[cbid] = on;
  }
  update_ids_wanted();
}

void Session::enable_kind(CUpti_ActivityKind kind, bool on) {
  kinds_[kind] = on;
  // Switching a whole API kind overrides what was said about single functions.
  if (kind == CUPTI_ACTIVITY_KIND_RUNTIME) std::fill(runtime_records_.begin(), runtime_records_.end(), on);
  if (kind == CUPTI_ACTIVITY_KIND_DRIVER) std::fill(driver_records_.begin(), driver_records_.end(), on);
  update_ids_wanted();
  if (on) set_observer(this);
}

void Session::enable_api_record(ApiDomain domain, uint32_t cbid, bool on) {
  if (cbid >= kMaxCallbackId) return;
  (domain == ApiDomain::kRuntime ? runtime_records_ : driver_records_)[cbid] = on;
  update_ids_wanted();
  if (on) set_observer(this);
}

void Session::update_ids_wanted() {
  const auto any = [](const IdFlags& flags) {
    return std::any_of(flags.begin(), flags.end(),
                       [](const auto& f) { return f.load(std::memory_order_relaxed); });
  };
  ids_wanted_ =
      any(runtime_callbacks_) || any(driver_callbacks_) || any(runtime_records_) || any(driver_records_);
}

void Session::push_external(CUpti_ExternalCorrelationKind kind, uint64_t id) {
  t_external[kind].push_back(id);
}

bool Session::pop_external(CUpti_ExternalCorrelationKind kind, uint64_t* id) {
  auto& ids = t_external[kind];
  if (ids.empty()) return false;
  if (id) *id = ids.back();
  ids.pop_back();
  return true;
}

void Session::reset() {
  set_observer(nullptr);
  std::lock_guard lock(mutex_);
  subscribed_ = false;
  callback_ = nullptr;
  for (auto& flag : kinds_) flag = false;
  for (IdFlags* flags : {&runtime_callbacks_, &driver_callbacks_, &runtime_records_, &driver_records_}) {
    for (auto& flag : *flags) flag = false;
  }
  ids_wanted_ = false;
}

}  // namespace gpuwatch::sim
