// SPDX-License-Identifier: Apache-2.0
#include "kernel.h"

#include <cxxabi.h>
#include <fnmatch.h>

#include <cctype>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <unordered_set>

#include "config.h"

namespace gpuwatch::sim {

namespace {

struct Registry {
  std::shared_mutex mutex;
  std::unordered_map<std::string, const Kernel*> by_name;
  std::unordered_set<const void*> handles;
};

Registry& registry() {
  static Registry* instance = new Registry;
  return *instance;
}

std::string demangle(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 && text ? text : name;
  std::free(text);
  return result;
}

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}

}  // namespace

double duration_us_from_name(const std::string& demangled) {
  double result = -1;
  for (size_t at = demangled.find('_'); at != std::string::npos; at = demangled.find('_', at + 1)) {
    char* end = nullptr;
    const char* digits = demangled.c_str() + at + 1;
    if (!std::isdigit(static_cast<unsigned char>(*digits))) continue;
    const double value = static_cast<double>(std::strtoull(digits, &end, 10));
    const char unit = *end;
    if ((unit != 'n' && unit != 'u' && unit != 'm') || end[1] != 's' || is_word(end[2])) continue;
    result = value * (unit == 'n' ? 1e-3 : unit == 'u' ? 1.0 : 1e3);
  }
  return result;
}

Kernel::Kernel(const char* mangled_name) : mangled_(mangled_name), demangled_(demangle(mangled_name)) {
  for (const FillRule& rule : config().fills) {
    if (fill_argument_ < 0 && matches(rule.glob)) fill_argument_ = rule.argument;
  }
  for (const KernelRule& rule : config().kernels) {
    if (matches(rule.glob)) {
      base_us_ = rule.base_us;
      per_block_us_ = rule.per_block_us;
      has_rule_ = true;
      return;
    }
  }
  base_us_ = duration_us_from_name(demangled_);
  if (base_us_ >= 0) return;
  base_us_ = config().default_kernel_ns / 1e3;
  for (const TrafficRule& rule : config().traffic) {
    if (!matches(rule.glob)) continue;
    if (rule.base_us >= 0) base_us_ = rule.base_us;
    per_thread_us_ = rule.bytes_per_thread / config().d2d_bytes_per_ns / 1e3;
    return;
  }
}

bool Kernel::matches(const std::string& glob) const {
  return fnmatch(glob.c_str(), mangled_.c_str(), 0) == 0 || fnmatch(glob.c_str(), demangled_.c_str(), 0) == 0;
}

Ns Kernel::duration_ns(uint64_t blocks, uint64_t threads_per_block) const {
  const double each_block_us = per_block_us_ + per_thread_us_ * static_cast<double>(threads_per_block);
  return static_cast<Ns>((base_us_ + each_block_us * static_cast<double>(blocks)) * 1e3 + 0.5);
}

const Kernel* Kernel::find_or_add(const char* mangled_name) {
  Registry& r = registry();
  std::unique_lock lock(r.mutex);
  const Kernel*& entry = r.by_name[mangled_name];
  if (!entry) {
    entry = new Kernel(mangled_name);
    r.handles.insert(entry);
  }
  return entry;
}

const Kernel* Kernel::from_handle(const void* handle) {
  Registry& r = registry();
  std::shared_lock lock(r.mutex);
  return r.handles.count(handle) ? static_cast<const Kernel*>(handle) : nullptr;
}

}  // namespace gpuwatch::sim
