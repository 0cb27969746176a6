// SPDX-License-Identifier: Apache-2.0
#include "analyzer/io/printable.h"

#include <algorithm>
#include <cstdint>

namespace gpuwatch::io {
namespace {

struct CodePoint {
  char32_t value = 0;
  size_t bytes = 0;  // 0: not valid UTF-8 here
};

CodePoint decode(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  char32_t value = lead & (0x7f >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3f);
  }
  const bool overlong = (bytes == 3 && value < 0x800) || (bytes == 4 && value < 0x10000);
  const bool surrogate = value >= 0xd800 && value <= 0xdfff;
  if (overlong || surrogate || value > 0x10ffff) return {};
  return {value, bytes};
}

bool is_visible(char32_t c) {
  if (c < 0x20 || (c >= 0x7f && c < 0xa0)) return false;        // C0, DEL, C1 (0x9b is an 8-bit CSI)
  if (c >= 0x200b && c <= 0x200f) return false;                 // zero width, direction marks
  if (c >= 0x2028 && c <= 0x202e) return false;                 // line separators, embeddings, overrides
  if (c >= 0x2060 && c <= 0x206f) return false;                 // invisible operators, isolates
  if (c == 0x00ad || c == 0x061c || c == 0xfeff) return false;  // soft hyphen, Arabic mark, BOM
  return !(c >= 0xfff9 && c <= 0xfffb) && !(c >= 0xe0000 && c <= 0xe0fff);  // annotations, tags
}

// Length of a terminal escape sequence at the start of `text` (which begins with ESC), so that its parameters
// disappear with it instead of staying behind as "[31m".
size_t escape_length(std::string_view text) {
  if (text.size() < 2) return 1;
  const char kind = text[1];
  size_t i = 2;
  if (kind == '[') {
    while (i < text.size() && text[i] >= 0x20 && text[i] < 0x40) ++i;
    return std::min(i + 1, text.size());
  }
  if (kind == ']' || kind == 'P' || kind == 'X' || kind == '^' ||
      kind == '_') {  // up to BEL or ESC backslash
    while (i < text.size() && text[i] != '\a' && text[i] != '\x1b') ++i;
    if (i < text.size() && text[i] == '\x1b') ++i;
    return std::min(i + 1, text.size());
  }
  return 2;
}

bool is_continuation(char c) {
  return (static_cast<uint8_t>(c) & 0xc0) == 0x80;
}

std::string shorten(std::string text, size_t max_bytes) {
  constexpr std::string_view kGap = "...";
  if (text.size() <= max_bytes) return text;
  if (max_bytes <= kGap.size()) return std::string(kGap.substr(0, max_bytes));
  size_t head = (max_bytes - kGap.size()) / 2;
  size_t tail = text.size() - (max_bytes - kGap.size() - head);
  while (head > 0 && is_continuation(text[head])) --head;
  while (tail < text.size() && is_continuation(text[tail])) ++tail;
  return text.substr(0, head).append(kGap).append(text, tail);
}

}  // namespace

std::string printable(std::string_view text, size_t max_bytes) {
  // What is far beyond the limit is never looked at: a name of many megabytes costs nothing.
  const size_t enough = max_bytes * 8 + 64;
  std::string whole;
  if (text.size() > 2 * enough) {
    whole.append(text.substr(0, enough)).append("...").append(text.substr(text.size() - enough));
    text = whole;
  }
  std::string result;
  bool hidden = false;  // the last thing written stands for something hidden
  while (!text.empty()) {
    const CodePoint point = decode(text);
    size_t bytes = std::max<size_t>(point.bytes, 1);
    if (point.value == '\n' || point.value == '\t' || point.value == '\r') {
      result += ' ';
      hidden = false;
    } else if (point.bytes != 0 && is_visible(point.value)) {
      result.append(text.substr(0, bytes));
      hidden = false;
    } else {
      if (point.value == 0x1b) bytes = escape_length(text);
      if (!hidden) result += '?';
      hidden = true;
    }
    text.remove_prefix(bytes);
  }
  return shorten(std::move(result), max_bytes);
}

}  // namespace gpuwatch::io
