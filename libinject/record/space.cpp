// SPDX-License-Identifier: Apache-2.0
#include "libinject/record/space.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "libinject/base/clock.h"
#include "libinject/base/compiler.h"
#include "libinject/base/kept_file.h"
#include "libinject/base/syscall.h"
#include "libinject/record/disk_reserve.h"
#include "libinject/record/thread_recorder.h"
#include "libinject/trace/layout.h"

namespace gpuwatch::record::space {
namespace {

using namespace trace;  // kPageBytes and so on

constexpr size_t kMaxSegments = 4096;  // 16 GiB

constinit base::KeptFile g_file;
char g_path[4096];
constinit uint32_t g_creator = 0;  // pid
constinit std::atomic<bool> g_is_stopped_here{false};
constinit std::atomic<uint8_t*> g_segments[kMaxSegments] = {};
constinit std::atomic<uint8_t*> g_newest_segment{nullptr};

std::atomic_ref<uint32_t> header_word(size_t offset) noexcept {
  uint8_t* header = g_segments[0].load(std::memory_order_acquire);
  return std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(header + offset));
}

void stop(StopReason reason) noexcept {
  uint32_t running = 0;
  header_word(FileHeaderTemplate::k_stopped).compare_exchange_strong(running, static_cast<uint32_t>(reason));
}

// What a forked child brought upon itself (limits that it lowered, a user that it became) is nothing to its
// parent and siblings. Trouble of the process that the file was made for leaves little to record.
void stop_this_process(StopReason reason) noexcept {
  const auto pid = static_cast<uint32_t>(base::sys_getpid());
  if (pid == g_creator) return stop(reason);
  if (pid != current_pid()) return;  // a vforked child: this memory is its parent's
  if (g_is_stopped_here.exchange(true)) return;
  header_word(FileHeaderTemplate::k_stopped_children).fetch_add(1);
  uint32_t none = 0;
  header_word(FileHeaderTemplate::k_child_stop).compare_exchange_strong(none, static_cast<uint32_t>(reason));
}

// `reason` of a system call that failed: the disk is everybody's.
void stop_after_failure(StopReason reason) noexcept {
  const bool is_of_disk = reason == StopReason::DiskFull || reason == StopReason::DiskReserve;
  if (is_of_disk)
    stop(reason);
  else
    stop_this_process(reason);
}

base::Descriptor open_checked() noexcept {
  if (const base::Descriptor kept = g_file.kept(); kept.fd >= 0) return kept;
  const int fd = base::sys_open(g_path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return {-1, false};
  if (!g_file.is_same_file(fd)) {
    base::sys_close(fd);
    return {-1, false};
  }
  return g_file.keep(fd);
}

uint64_t file_size_limit() noexcept {
  rlimit limit;
  if (base::raw_syscall(SYS_getrlimit, RLIMIT_FSIZE, base::address(&limit))) return UINT64_MAX;
  return limit.rlim_cur;
}

// Also done to every frame before it is used: the first store to a page of a reserved but unwritten extent
// takes the file system's slow path. Measured on ext4: 5.1 us a page touched, 4.4 us with
// MADV_POPULATE_WRITE, 1.1 us with zeros written first; on tmpfs 3.2 us and 3.8 us. A page holds 170 records.
int write_zeros(int fd, off_t offset, size_t bytes) noexcept {
  static constexpr uint8_t kZeros[kChunkPages * kPageBytes] = {};
  for (size_t done = 0; done < bytes;) {
    const size_t size = bytes - done < sizeof kZeros ? bytes - done : sizeof kZeros;
    const ssize_t n = base::sys_pwrite(fd, kZeros, size, offset + static_cast<off_t>(done));
    if (n <= 0) return n < 0 ? static_cast<int>(n) : -ENOSPC;
    done += static_cast<size_t>(n);
  }
  return 0;
}

// Some file systems (NFS before 4.2, many FUSE ones) and sandboxes cannot reserve. There each frame exists
// when claim() has written its zeros. Not more than that: another process may have laid a frame down in the
// rest.
constinit std::atomic<bool> g_cannot_reserve{false};

int reserve(int fd, off_t offset, size_t bytes) noexcept {
  const int error = base::sys_fallocate(fd, offset, static_cast<off_t>(bytes));
  if (error != -EOPNOTSUPP && error != -ENOSYS && error != -EPERM) return error;
  g_cannot_reserve.store(true, std::memory_order_relaxed);
  return 0;
}

StopReason stop_reason_of(int error) noexcept {
  if (error == 0) return StopReason::Recording;
  if (error == -ENOSPC || error == -EDQUOT) return StopReason::DiskFull;
  if (error == -EFBIG) return StopReason::FileSizeLimit;
  return StopReason::Error;
}

StopReason grow(uint32_t from_page, uint32_t to_page) noexcept {
  const base::Descriptor file = open_checked();
  if (file.fd < 0) return StopReason::Error;
  const size_t bytes = size_t{to_page - from_page} * kPageBytes;
  StopReason failed = StopReason::DiskReserve;
  if (leaves_disk_reserve(file.fd, bytes))
    failed = stop_reason_of(reserve(file.fd, static_cast<off_t>(size_t{from_page} * kPageBytes), bytes));
  base::close_unless_kept(file);
  return failed;
}

// Makes the file at least `pages` long. Two processes may do the same at once: reserving twice is harmless.
bool ensure_reserved(uint32_t pages) noexcept {
  auto reserved = header_word(FileHeaderTemplate::k_reserved_pages);
  uint32_t seen = reserved.load(std::memory_order_acquire);
  if (GW_LIKELY(seen >= pages)) return true;
  const uint64_t step = pages <= kPagesPerSegment ? kFirstStepPages : kPagesPerSegment;
  const uint64_t target = (pages + step - 1) / step * step;
  if (target * kPageBytes > file_size_limit()) {
    stop_this_process(StopReason::FileSizeLimit);
    return false;
  }
  const StopReason failed = grow(seen, static_cast<uint32_t>(target));
  if (failed != StopReason::Recording) {
    stop_after_failure(failed);
    return false;
  }
  while (seen < target && !reserved.compare_exchange_weak(seen, static_cast<uint32_t>(target))) {
  }
  return true;
}

// Tables, and first chunks of threads, are released together once no new frame goes to their segment. A
// thread that is not done there faults its pages in again.
void release_before(uint8_t* newest) noexcept {
  if (uint8_t* before = g_newest_segment.exchange(newest, std::memory_order_relaxed))
    release(before, kPagesPerSegment);
}

uint8_t* map_segment(size_t index) noexcept {
  const base::Descriptor file = open_checked();
  if (file.fd < 0) return nullptr;
  auto* mapped = static_cast<uint8_t*>(base::sys_mmap(kSegmentBytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                                                      file.fd, static_cast<off_t>(index * kSegmentBytes)));
  base::close_unless_kept(file);
  if (!mapped) return nullptr;
  uint8_t* expected = nullptr;
  if (g_segments[index].compare_exchange_strong(expected, mapped, std::memory_order_acq_rel)) {
    release_before(mapped);
    return mapped;
  }
  base::raw_syscall(SYS_munmap, base::address(mapped), kSegmentBytes);
  return expected;
}

// A job may lower its limit below what is reserved: a store still works there, a write raises SIGXFSZ.
StopReason zero(uint32_t from_page, uint32_t to_page) noexcept {
  if (uint64_t{to_page} * kPageBytes > file_size_limit()) return StopReason::FileSizeLimit;
  const base::Descriptor file = open_checked();
  if (file.fd < 0) return StopReason::Error;
  const off_t offset = static_cast<off_t>(uint64_t{from_page} * kPageBytes);
  const StopReason failed = stop_reason_of(write_zeros(file.fd, offset, (to_page - from_page) * kPageBytes));
  base::close_unless_kept(file);
  return failed;
}

uint8_t* page_address(uint32_t page) noexcept {
  const size_t index = page / kPagesPerSegment;
  if (index >= kMaxSegments) return nullptr;
  uint8_t* segment = g_segments[index].load(std::memory_order_acquire);
  if (GW_UNLIKELY(!segment)) segment = map_segment(index);
  return segment ? segment + (page % kPagesPerSegment) * kPageBytes : nullptr;
}

void write_header(uint8_t* page, uint64_t max_bytes) noexcept {
  FileHeaderFields fields;
  fields.major = kMajorVersion;
  fields.minor = kMinorVersion;
  fields.page_bytes = kPageBytes;
  fields.created_realtime_ns = base::realtime_ns();
  fields.limit_pages = static_cast<uint32_t>(max_bytes / kPageBytes);
  fields.next_page = 1;
  fields.reserved_pages = kFirstStepPages;
  lay_down(page, fields);
}

}  // namespace

bool create(const char* path, uint32_t mode, uint64_t max_bytes, int* error) noexcept {
  const uint64_t ceiling = kMaxSegments * uint64_t{kSegmentBytes};
  if (max_bytes > ceiling) max_bytes = ceiling;
  if (file_size_limit() < kFirstStepBytes) {
    *error = EFBIG;
    return false;
  }
  const int fd =
      base::sys_open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, static_cast<int>(mode));
  if (fd < 0) {
    *error = -fd;
    return false;
  }
  int failed = leaves_disk_reserve(fd, kSegmentBytes) ? reserve(fd, 0, kFirstStepBytes) : -ENOSPC;
  if (!failed) failed = write_zeros(fd, 0, kPageBytes);
  std::strncpy(g_path, path, sizeof g_path - 1);
  const base::Descriptor file = g_file.keep(fd);
  uint8_t* first = failed ? nullptr : map_segment(0);
  if (!first) {
    *error = failed ? -failed : ENOMEM;
    g_file = {};
    base::sys_close(file.fd);
    base::sys_unlink(path);
    return false;
  }
  base::close_unless_kept(file);
  g_creator = static_cast<uint32_t>(base::sys_getpid());
  write_header(first, max_bytes);
  return true;
}

uint8_t* claim(uint32_t pages) noexcept {
  if (is_stopped()) return nullptr;
  auto next = header_word(FileHeaderTemplate::k_next_page);
  const uint32_t limit = header_word(FileHeaderTemplate::k_limit_pages).load(std::memory_order_relaxed);
  uint32_t first, after, seen = next.load(std::memory_order_relaxed);
  do {
    first = seen;
    const uint32_t left = kPagesPerSegment - first % kPagesPerSegment;
    if (left < pages) first += left;  // a frame never crosses a segment
    after = first + pages;
    if (after > limit) {
      stop(StopReason::SizeLimit);
      return nullptr;
    }
  } while (!next.compare_exchange_weak(seen, after, std::memory_order_relaxed));
  if (!ensure_reserved(after)) return nullptr;
  const StopReason failed = zero(first, after);
  if (failed != StopReason::Recording && g_cannot_reserve.load(std::memory_order_relaxed)) {
    stop_after_failure(failed);
    return nullptr;
  }
  uint8_t* frame = page_address(first);
  if (!frame) stop_this_process(StopReason::Error);
  return frame;
}

void release(uint8_t* frame, uint32_t pages) noexcept {
  base::raw_syscall(SYS_madvise, base::address(frame), static_cast<long>(pages * kPageBytes), MADV_DONTNEED);
}

uint32_t next_process() noexcept {
  return header_word(FileHeaderTemplate::k_next_process).fetch_add(1);
}
uint32_t next_id() noexcept {
  return header_word(FileHeaderTemplate::k_next_id).fetch_add(1) + 1;
}

bool is_stopped() noexcept {
  return g_is_stopped_here.load(std::memory_order_relaxed) ||
         header_word(FileHeaderTemplate::k_stopped).load(std::memory_order_relaxed) != 0;
}

}  // namespace gpuwatch::record::space
