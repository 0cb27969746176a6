// SPDX-License-Identifier: Apache-2.0
// stdio's reads, writes and opens. libc makes their system calls inside, past the hooks of read and write:
// NumPy reads and writes its arrays with them (a job that read 400 MB for each batch seemed to compute
// them), OpenCV its images. Nested calls do not count twice (io_counts.h).
#include <cstdio>

#include "hooks/libc/timed.h"
#include "libinject/base/compiler.h"

namespace {

using gpuwatch::hooks::Op;
using namespace gpuwatch::hooks::libc;

// Less is served by the stream's own buffer, with a system call now and then, and passes through. libjpeg
// asks for as much at a time.
constexpr size_t kStreamBuffer = 4096;

template <class Real>
Real found(Function function) noexcept {
  const auto known = real<Real>(function);
  return GW_LIKELY(known) ? known : reinterpret_cast<Real>(find_one(function));
}

// The descriptor; -1 for a stream over memory or callbacks (fmemopen, open_memstream, fopencookie), whose
// field may hold anything. fileno() would set errno for those.
int descriptor_of(const FILE* file) noexcept {
  constexpr int kIsFile = 0x2000;  // _IO_IS_FILEBUF of glibc's libioP.h
  return file->_flags & kIsFile ? file->_fileno : -1;
}

template <class Real, class... Arguments>
size_t transfer(Function function, Op op, const void* caller, size_t size, size_t count, FILE* file,
                Arguments... arguments) {
  const auto function_of_libc = found<Real>(function);
  if (GW_UNLIKELY(!function_of_libc)) return 0;
  size_t bytes;
  const bool is_large = !__builtin_mul_overflow(size, count, &bytes) && bytes >= kStreamBuffer;
  if (GW_LIKELY(!is_watching() || !is_large)) return function_of_libc(arguments...);
  const int descriptor = descriptor_of(file);
  if (descriptor < 0) return function_of_libc(arguments...);
  size_t items = 0;
  const auto in_bytes = [&] {
    items = function_of_libc(arguments...);
    return static_cast<int64_t>(items * size);
  };
  timed(Call{op, Outcome::bytes, input_of(op), static_cast<uint32_t>(descriptor), caller}, in_bytes);
  return items;
}

FILE* open_stream(Function function, Op op, const void* caller, const char* path, const char* mode) {
  const auto function_of_libc = found<FILE* (*)(const char*, const char*)>(function);
  if (GW_UNLIKELY(!function_of_libc)) return nullptr;
  if (GW_LIKELY(!is_watching())) return function_of_libc(path, mode);
  FILE* file = nullptr;
  const auto in_descriptor = [&] {
    file = function_of_libc(path, mode);
    return file ? descriptor_of(file) : -1;
  };
  timed(Call{op, Outcome::opened, Input::kOpen, 0, caller}, in_descriptor);
  return file;
}

}  // namespace

#define GW_UNPACK(...) __VA_ARGS__

#define GW_LIBC_items(ret, name, params, args, subject)                                                \
  extern "C" GW_EXPORT ret gw_libc_##name params __asm__(#name);                                       \
  extern "C" GW_EXPORT ret gw_libc_##name params {                                                     \
    return transfer<decltype(&gw_libc_##name)>(Function::name, Op::name, GW_CALLER, size, count, file, \
                                               GW_UNPACK args);                                        \
  }
#define GW_LIBC_stream(ret, name, params, args, subject)                     \
  extern "C" GW_EXPORT ret gw_libc_##name params __asm__(#name);             \
  extern "C" GW_EXPORT ret gw_libc_##name params {                           \
    return open_stream(Function::name, Op::name, GW_CALLER, GW_UNPACK args); \
  }
#define GW_LIBC_code(...)
#define GW_LIBC_minus_one(...)
#define GW_LIBC_bytes(...)
#define GW_LIBC_rest(...)
#define GW_LIBC_opened(...)
#define GW_LIBC_ends(...)

#define GW_LIBC(ret, name, params, args, op_class, outcome, subject) \
  GW_LIBC_##outcome(ret, name, params, args, subject)
#include "hooks/libc/libc.def"
#undef GW_LIBC
