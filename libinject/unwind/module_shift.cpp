// SPDX-License-Identifier: Apache-2.0
#include "libinject/unwind/module_shift.h"

#include <cstddef>
#include <cstring>

#include "libinject/base/compiler.h"
#include "libinject/base/syscall.h"
#include "libinject/base/text.h"

namespace gpuwatch::unwind {

namespace {

struct Mapping {
  uint64_t begin = 0, end = 0, offset = 0;
  char file[48] = {};  // "08:01 1234", empty for memory without a file
};

// Lines of /proc/PID/maps: "begin-end perms offset device inode path".
class Mappings {
 public:
  explicit Mappings(uint32_t pid) noexcept {
    base::Text<32> path;
    path.add("/proc/").add(uint64_t{pid}).add("/maps");
    fd_ = base::sys_open(path.c_str(), O_RDONLY | O_CLOEXEC);
  }
  ~Mappings() noexcept {
    if (fd_ >= 0) base::sys_close(fd_);
  }
  Mappings(const Mappings&) = delete;
  Mappings& operator=(const Mappings&) = delete;

  bool next(Mapping& to) noexcept {
    char c = 0;
    if (!take(c)) return false;
    to.begin = number(c);
    to.end = take(c) ? number(c) : 0;
    skip_word(c);  // permissions
    to.offset = take(c) ? number(c) : 0;
    size_t size = 0;
    for (int words = 0; take(c) && c != '\n';) {
      if (c == ' ' && ++words == 2) break;
      if (size + 1 < sizeof to.file) to.file[size++] = c;
    }
    to.file[size] = 0;
    if (std::strncmp(to.file, "00:00 0", 7) == 0) to.file[0] = 0;
    while (c != '\n' && take(c)) {
    }
    return true;
  }

 private:
  bool take(char& to) noexcept {
    if (at_ == filled_) {
      const ssize_t got = fd_ < 0 ? 0 : base::sys_read(fd_, buffer_, sizeof buffer_);
      if (got <= 0) return false;
      at_ = 0;
      filled_ = static_cast<size_t>(got);
    }
    to = buffer_[at_++];
    return true;
  }
  // Hexadecimal, from `c` on, up to and with what ends it.
  uint64_t number(char c) noexcept {
    uint64_t value = 0;
    do {
      if (c >= '0' && c <= '9') {
        value = value << 4 | static_cast<uint64_t>(c - '0');
      } else if (c >= 'a' && c <= 'f') {
        value = value << 4 | static_cast<uint64_t>(c - 'a' + 10);
      } else {
        break;
      }
    } while (take(c));
    return value;
  }
  void skip_word(char& c) noexcept {
    while (take(c) && c != ' ') {
    }
  }

  int fd_;
  size_t at_ = 0, filled_ = 0;
  char buffer_[1024];
};

// The module's first mapping is the one of its file's beginning; where a file is mapped twice, the nearest
// before the address.
bool find_own(uint64_t address, Mapping& first) noexcept {
  Mappings mappings(static_cast<uint32_t>(base::sys_getpid()));
  Mapping start, mapping;
  while (mappings.next(mapping)) {
    if (mapping.file[0] && mapping.offset == 0) start = mapping;
    const bool is_it = address >= mapping.begin && address < mapping.end;
    if (!is_it) continue;
    // What a module needs zeroed has no file, and lies right behind what has.
    if (mapping.file[0] && std::strcmp(mapping.file, start.file) != 0) return false;
    first = start;
    return start.file[0] != 0;
  }
  return false;
}

}  // namespace

GW_COLD bool find_module_shift(uint32_t pid, uint64_t address, uint64_t& shift) noexcept {
  Mapping own, other;
  if (!find_own(address, own)) return false;
  Mappings mappings(pid);
  while (mappings.next(other)) {
    if (other.offset != 0 || std::strcmp(other.file, own.file) != 0) continue;
    shift = other.begin - own.begin;
    return true;
  }
  return false;
}

}  // namespace gpuwatch::unwind
