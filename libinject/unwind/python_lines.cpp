// SPDX-License-Identifier: Apache-2.0
#include "libinject/unwind/python_lines.h"

#include "libinject/base/compiler.h"

namespace gpuwatch::unwind {

namespace {

constexpr uint64_t kBytesSize = 16;  // PyBytesObject.ob_size
constexpr uint64_t kBytesData = 32;  // PyBytesObject.ob_sval
// A script of 10 000 lines at module level has a table of some 100 KB; what is longer is no table.
constexpr uint64_t kMaxTableBytes = 256 * 1024;

// The bytes of a table, one after the other.
class Table {
 public:
  Table(ForeignMemory& memory, uint64_t object) noexcept : memory_(memory), next_(object + kBytesData) {
    left_ = memory.value<uint64_t>(object + kBytesSize);
    if (left_ > kMaxTableBytes) left_ = 0;
  }
  bool take(uint8_t& to) noexcept {
    if (at_ == filled_ && !fill()) return false;
    to = buffer_[at_++];
    return true;
  }

 private:
  bool fill() noexcept {
    if (left_ == 0) return false;
    filled_ = left_ < sizeof buffer_ ? static_cast<uint32_t>(left_) : sizeof buffer_;
    at_ = 0;
    if (!memory_.read(next_, buffer_, filled_)) {
      left_ = filled_ = 0;
      return false;
    }
    next_ += filled_;
    left_ -= filled_;
    return true;
  }

  ForeignMemory& memory_;
  uint64_t next_;
  uint64_t left_;
  uint32_t at_ = 0, filled_ = 0;
  uint8_t buffer_[256];
};

int32_t plus(int32_t line, int64_t delta) noexcept {  // tables may hold anything
  const int64_t sum = line + delta;
  return sum < 0 || sum > INT32_MAX ? 0 : static_cast<int32_t>(sum);
}

// Pairs of (bytes of code, lines): the line changes after the bytes.
int32_t line_in_lnotab(Table& table, int32_t line, int64_t offset) noexcept {
  int64_t end = 0;
  for (uint8_t bytes, lines; table.take(bytes) && table.take(lines);) {
    end += bytes;
    if (end > offset) break;
    line = plus(line, static_cast<int8_t>(lines));
  }
  return line;
}

// Pairs of (bytes of code, lines): the line changes before the bytes; -128: these have none.
int32_t line_in_pairs(Table& table, int32_t line, int64_t offset) noexcept {
  int64_t end = 0;
  for (uint8_t bytes, lines; table.take(bytes) && table.take(lines);) {
    end += bytes;
    const auto delta = static_cast<int8_t>(lines);
    if (delta != -128) line = plus(line, delta);
    if (end > offset) return line;
  }
  return line;
}

// An entry begins with a byte that has bit 7 set: kind in bits 3 to 6, code units less one in bits 0 to 2.
enum LocationKind : uint8_t { kOneLine0 = 10, kOneLine2 = 12, kNoColumns = 13, kLong = 14, kNone = 15 };

// Six bits a byte, lowest first; bit 6: more follow. Bit 0 of the result is the sign.
bool take_signed(Table& table, int64_t& to) noexcept {
  uint64_t value = 0;
  uint8_t byte = 0;
  for (int shift = 0; shift < 36; shift += 6) {
    if (!table.take(byte)) return false;
    value |= static_cast<uint64_t>(byte & 63) << shift;
    if (!(byte & 64)) break;
  }
  to = static_cast<int64_t>(value >> 1);
  if (value & 1) to = -to;
  return true;
}

int32_t line_in_locations(Table& table, int32_t line, int64_t offset) noexcept {
  int64_t end = 0;
  uint8_t byte = 0;
  bool has_byte = table.take(byte);
  while (has_byte) {
    if (!(byte & 128)) return 0;
    const uint8_t kind = (byte >> 3) & 15;
    end += ((byte & 7) + 1) * 2;
    int64_t delta = 0;
    if ((kind == kLong || kind == kNoColumns) && !take_signed(table, delta)) return 0;
    if (kind >= kOneLine0 && kind <= kOneLine2) delta = kind - kOneLine0;
    line = plus(line, delta);
    if (end > offset) return line;
    do {
      has_byte = table.take(byte);
    } while (has_byte && !(byte & 128));
  }
  return line;
}

}  // namespace

GW_COLD int32_t line_of(ForeignMemory& memory, int minor, uint64_t table, int32_t first_line,
                        int64_t offset) noexcept {
  if (offset < 0) return first_line;
  Table bytes(memory, table);
  if (minor <= 9) return line_in_lnotab(bytes, first_line, offset);
  if (minor == 10) return line_in_pairs(bytes, first_line, offset);
  return line_in_locations(bytes, first_line, offset);
}

}  // namespace gpuwatch::unwind
