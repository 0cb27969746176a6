// SPDX-License-Identifier: Apache-2.0
#include "libinject/unwind/foreign_memory.h"

#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include "libinject/base/syscall.h"

namespace gpuwatch::unwind {

namespace {

// Bytes copied, or -errno.
long copy(uint32_t pid, const iovec& to, const iovec* from, size_t pieces) noexcept {
  return base::raw_syscall(SYS_process_vm_readv, pid, base::address(&to), 1, base::address(from),
                           static_cast<long>(pieces), 0);
}

int error_of(long result) noexcept {
  return result < 0 ? static_cast<int>(-result) : EFAULT;  // less than asked for: the rest is not mapped
}

iovec piece(uint64_t address, size_t bytes) noexcept {
  return {reinterpret_cast<void*>(address), bytes};
}

}  // namespace

const uint8_t* ForeignMemory::block(uint64_t address) noexcept {
  for (size_t i = 0; i < kBlocks; ++i) {
    if (addresses_[i] == address) return blocks_[i];
  }
  const size_t slot = next_++ % kBlocks;
  addresses_[slot] = 0;
  const iovec to = {blocks_[slot], kBlockBytes};
  const iovec from = piece(address, kBlockBytes);
  const long copied = copy(pid_, to, &from, 1);
  if (copied != static_cast<long>(kBlockBytes)) {
    error_ = error_of(copied);
    return nullptr;
  }
  addresses_[slot] = address;
  return blocks_[slot];
}

bool ForeignMemory::read(uint64_t address, void* to, size_t bytes) noexcept {
  auto* out = static_cast<uint8_t*>(to);
  while (bytes > 0) {
    const uint64_t start = address & ~uint64_t{kBlockBytes - 1};
    if (start == 0) {  // the null page, and what stands for "no block"
      error_ = EFAULT;
      return false;
    }
    const uint8_t* from = block(start);
    if (!from) return false;
    const size_t offset = address - start;
    const size_t here = bytes < kBlockBytes - offset ? bytes : kBlockBytes - offset;
    std::memcpy(out, from + offset, here);
    out += here;
    address += here;
    bytes -= here;
  }
  return true;
}

bool ForeignMemory::read_all(const uint64_t* addresses, size_t count, void* to, size_t bytes_each) noexcept {
  iovec from[kMaxPieces];
  if (count > kMaxPieces) count = kMaxPieces;
  for (size_t i = 0; i < count; ++i) from[i] = piece(addresses[i], bytes_each);
  const iovec whole = {to, count * bytes_each};
  const long copied = copy(pid_, whole, from, count);
  if (copied == static_cast<long>(whole.iov_len)) return true;
  error_ = error_of(copied);
  return false;
}

void ForeignMemory::forget() noexcept {
  for (uint64_t& address : addresses_) address = 0;
  error_ = 0;
}

}  // namespace gpuwatch::unwind
