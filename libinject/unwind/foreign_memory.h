// SPDX-License-Identifier: Apache-2.0
// Reads memory at addresses that may be invalid: of a data worker, or of this process's own interpreter. The
// kernel copies it (process_vm_readv), so that an invalid pointer is a failed read and never a signal. A copy
// may be inconsistent, because other threads write at the same time: the caller checks what it read.
//
// Cost: 0.3 to 2.5 us a system call; blocks of 1 KiB are kept, because what an interpreter links lies close
// together. 6.3 KB of stack. Thread safety: one thread each. Signal safety: yes. Errors: read() says false
// and error() why (EFAULT, EPERM, ESRCH, ...); errno is kept.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpuwatch::unwind {

class ForeignMemory {
 public:
  explicit ForeignMemory(uint32_t pid) noexcept : pid_(pid) {}
  ForeignMemory(const ForeignMemory&) = delete;
  ForeignMemory& operator=(const ForeignMemory&) = delete;

  bool read(uint64_t address, void* to, size_t bytes) noexcept;

  // `count` equal pieces in one system call, packed one after the other; past the kept blocks.
  // At most kMaxPieces.
  static constexpr size_t kMaxPieces = 32;
  bool read_all(const uint64_t* addresses, size_t count, void* to, size_t bytes_each) noexcept;

  template <class T>
  T value(uint64_t address) noexcept {  // zeroes on failure, see has_failed()
    T result{};
    if (!read(address, &result, sizeof result)) result = T{};
    return result;
  }

  void forget() noexcept;  // the next reads come from the process again
  int error() const noexcept { return error_; }
  bool has_failed() const noexcept { return error_ != 0; }
  uint32_t pid() const noexcept { return pid_; }

 private:
  static constexpr size_t kBlockBytes = 1024;  // divides a page: a block is readable as a whole or not at all
  static constexpr size_t kBlocks = 6;

  const uint8_t* block(uint64_t address) noexcept;

  uint32_t pid_;
  int error_ = 0;  // of the last read that failed, an errno
  uint32_t next_ = 0;
  uint64_t addresses_[kBlocks] = {};
  alignas(8) uint8_t blocks_[kBlocks][kBlockBytes];
};

}  // namespace gpuwatch::unwind
