// SPDX-License-Identifier: Apache-2.0
// Kernels known to the simulated device: a name and the time that the name stands for.
// A duration comes from the first matching "kernel" rule, else from a suffix of the name such as `_50us` or
// `_5ms` ("adam_50us(float*)"), else from the first matching "kernel_bytes" rule, else from
// default_kernel_us. Objects live for ever, so pointers to them and to their names may be kept. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "clock.h"

namespace gpuwatch::sim {

class Kernel {
 public:
  explicit Kernel(const char* mangled_name);

  const char* name() const { return mangled_.c_str(); }
  const char* demangled_name() const { return demangled_.c_str(); }
  Ns duration_ns(uint64_t blocks, uint64_t threads_per_block) const;
  // Whether the configuration names a duration for this kernel.
  bool has_rule() const { return has_rule_; }
  // Which of its arguments points to what it fills, where it does nothing else; -1 for other kernels.
  int fill_argument() const { return fill_argument_; }

  // One object for each name; `mangled_name` may be a plain name.
  static const Kernel* find_or_add(const char* mangled_name);
  // Whether a handle that a program gave us is one of our kernels.
  static const Kernel* from_handle(const void* handle);

 private:
  bool matches(const std::string& glob) const;

  std::string mangled_;
  std::string demangled_;
  double base_us_;
  double per_block_us_ = 0;
  double per_thread_us_ = 0;
  bool has_rule_ = false;
  int fill_argument_ = -1;
};

// Null for null.
inline const char* name_of(const Kernel* kernel) {
  return kernel ? kernel->name() : nullptr;
}

// The duration in a name's suffix, in us, or a negative value.
double duration_us_from_name(const std::string& demangled);

}  // namespace gpuwatch::sim
