// SPDX-License-Identifier: Apache-2.0
// Devices and contexts. There is one context a device, whether it was retained as the primary one or created.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "core/device_attributes.h"
#include "core/memory.h"
#include "driver.h"

using namespace gpuwatch::sim;

namespace {

// A context's handle says its device, plus one so that it is not null.
CUcontext context_of(uint32_t device) {
  return reinterpret_cast<CUcontext>(uintptr_t{device} + 1);
}

int device_of(CUcontext context) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(context)) - 1;
}

thread_local std::vector<uint32_t> t_pushed;  // devices below the current one

CUresult create_context(CUcontext* context, CUdevice device) {
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  if (!exists(device)) return CUDA_ERROR_INVALID_DEVICE;
  t_pushed.push_back(current_device());
  set_current_device(device);
  *context = context_of(current_device());
  return CUDA_SUCCESS;
}

}  // namespace

GWSIM_EXPORT CUresult cuDeviceGetCount(int* count) {
  *count = config().devices;
  return CUDA_SUCCESS;
}
GWSIM_EXPORT CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (!exists(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}
GWSIM_EXPORT CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  if (!exists(device) || length <= 0) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(name, static_cast<size_t>(length), "%s", config().device_name.c_str());
  return CUDA_SUCCESS;
}
GWSIM_EXPORT CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (!exists(device)) return CUDA_ERROR_INVALID_DEVICE;
  *value = device_attribute(attribute, device);
  return CUDA_SUCCESS;
}
GWSIM_EXPORT CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  if (!exists(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = config().memory_bytes;
  return CUDA_SUCCESS;
}
GWSIM_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  if (!exists(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::memset(uuid, 0, sizeof *uuid);
  uuid->bytes[15] = static_cast<char>(device + 1);
  return CUDA_SUCCESS;
}

GWSIM_EXPORT CUresult cuDeviceGetPCIBusId(char* id, int length, CUdevice device) {
  if (!id || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!exists(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(id, static_cast<size_t>(length), "0000:00:%02x.0", device);
  return CUDA_SUCCESS;
}

GWSIM_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  GWSIM_CALL(cuDevicePrimaryCtxRetain);
  if (!exists(device)) return call.done(CUDA_ERROR_INVALID_DEVICE);
  *context = context_of(static_cast<uint32_t>(device));
  return call.done();
}
GWSIM_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) {
  return CUDA_SUCCESS;
}
GWSIM_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  *flags = 0;
  *active = Memory::instance().used_bytes(static_cast<uint32_t>(device)) > 0;  // whoever uses one allocates
  return CUDA_SUCCESS;
}
GWSIM_EXPORT CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = context_of(current_device());
  return CUDA_SUCCESS;
}
GWSIM_EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
  const bool known = !context || set_current_device(device_of(context));
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
#undef cuCtxCreate
GWSIM_EXPORT CUresult cuCtxCreate_v2(CUcontext* context, unsigned, CUdevice device) {
  GWSIM_CALL(cuCtxCreate_v2);
  return call.done(create_context(context, device));
}
GWSIM_EXPORT CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams*, unsigned, CUdevice device) {
  GWSIM_CALL(cuCtxCreate_v4);
  return call.done(create_context(context, device));
}
GWSIM_EXPORT CUresult cuCtxDestroy_v2(CUcontext context) {
  GWSIM_CALL(cuCtxDestroy_v2);
  return call.done(exists(device_of(context)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT);
}
GWSIM_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context) {
  GWSIM_SILENT_CALL(cuCtxPushCurrent_v2);
  if (!exists(device_of(context))) return call.done(CUDA_ERROR_INVALID_CONTEXT);
  t_pushed.push_back(current_device());
  set_current_device(device_of(context));
  return call.done();
}
GWSIM_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  GWSIM_SILENT_CALL(cuCtxPopCurrent_v2);
  if (context) *context = context_of(current_device());
  if (t_pushed.empty()) return call.done(CUDA_ERROR_INVALID_CONTEXT);
  set_current_device(static_cast<int>(t_pushed.back()));
  t_pushed.pop_back();
  return call.done();
}
GWSIM_EXPORT CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return CUDA_SUCCESS;
}
GWSIM_EXPORT CUresult cuCtxGetDevice(CUdevice* device) {
  *device = static_cast<CUdevice>(current_device());
  return CUDA_SUCCESS;
}
GWSIM_EXPORT CUresult cuCtxSynchronize() {
  GWSIM_CALL(cuCtxSynchronize);
  call.waited(wait_for_device());
  report_sync(SyncKind::kContext, nullptr, 0, call, now_ns());
  return call.done();
}
