// SPDX-License-Identifier: Apache-2.0
// What nvcc's generated constructors call: which kernels and device variables a program has. The image itself
// is not looked at.
#include <cstring>
#include <shared_mutex>
#include <unordered_map>

#include "core/memory.h"
#include "runtime.h"

namespace gpuwatch::sim {

namespace {

struct Symbol {
  size_t size_bytes = 0;
  void* address = nullptr;  // allocated at first use
};

// A framework registers a hundred thousand kernels at load and launches a few hundred of them: each becomes
// one when it is first asked for. The name lies in the program file that registered it, as the function does.
struct Function {
  const char* name = nullptr;
  const Kernel* kernel = nullptr;
};

struct Registered {
  std::shared_mutex mutex;
  std::unordered_map<const void*, Function> functions;
  std::unordered_map<const void*, Symbol> symbols;
};

// Leaked, and made on first use: constructors of any program file may come before ours.
Registered& registered() {
  static Registered* instance = new Registered;
  return *instance;
}

}  // namespace

const Kernel* find_kernel(const void* function_or_handle) {
  Registered& r = registered();
  {
    std::shared_lock lock(r.mutex);
    const auto found = r.functions.find(function_or_handle);
    if (found == r.functions.end()) return Kernel::from_handle(function_or_handle);
    if (found->second.kernel) return found->second.kernel;
  }
  std::unique_lock lock(r.mutex);
  Function& function = r.functions[function_or_handle];
  if (!function.kernel) function.kernel = Kernel::find_or_add(function.name);
  return function.kernel;
}

bool find_symbol(const void* symbol, void** address, size_t* size_bytes) {
  Registered& r = registered();
  std::unique_lock lock(r.mutex);
  const auto found = r.symbols.find(symbol);
  if (found == r.symbols.end()) return false;
  Symbol& s = found->second;
  if (!s.address)
    s.address = Memory::instance().allocate(s.size_bytes, MemoryKind::kDevice, current_device());
  *address = s.address;
  *size_bytes = s.size_bytes;
  return s.address != nullptr;
}

}  // namespace gpuwatch::sim

using namespace gpuwatch::sim;

GWSIM_EXPORT void** __cudaRegisterFatBinary(void*) {
  static void* handle[1] = {nullptr};
  return handle;
}
GWSIM_EXPORT void __cudaRegisterFatBinaryEnd(void**) {}
GWSIM_EXPORT void __cudaUnregisterFatBinary(void**) {}
GWSIM_EXPORT char __cudaInitModule(void**) {
  return 0;
}

GWSIM_EXPORT void __cudaRegisterFunction(void**, const char* host_function, char*, const char* device_name,
                                         int, uint3*, uint3*, dim3*, dim3*, int*) {
  std::unique_lock lock(registered().mutex);
  registered().functions[host_function] = {device_name, nullptr};
}

GWSIM_EXPORT void __cudaRegisterVar(void**, char* host_variable, char*, const char*, int, size_t size_bytes,
                                    int, int) {
  std::unique_lock lock(registered().mutex);
  registered().symbols[host_variable].size_bytes = size_bytes;
}

GWSIM_EXPORT void __cudaRegisterManagedVar(void**, void** host_variable_address, char*, const char*, int,
                                           size_t size_bytes, int, int) {
  void* address = Memory::instance().allocate(size_bytes, MemoryKind::kManaged, current_device());
  *host_variable_address = address;
  std::unique_lock lock(registered().mutex);
  registered().symbols[host_variable_address] = {size_bytes, address};
}

GWSIM_EXPORT void __cudaRegisterHostVar(void**, const char*, char*, size_t) {}

GWSIM_EXPORT cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host_function) {
  const Kernel* found = find_kernel(host_function);
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<Kernel*>(found));
  return found ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}
