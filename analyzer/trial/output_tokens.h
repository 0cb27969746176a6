// SPDX-License-Identifier: Apache-2.0
// Numbers, words and signs of one line that a program printed. Pure functions; the text is hostile input,
// time is linear in its size.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpuwatch::trial {

// <cctype> asks the locale, and is undefined for negative characters.
inline bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
inline bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

struct Token {
  enum Kind : uint8_t { kNumber, kWord, kSign } kind = kSign;
  bool is_spaced = false;  // white space, or nothing, before it
  bool is_clean = false;   // a number that stands alone: no part of a version, a range, a clock or "12/100"
  char sign = 0;
  std::string text;  // of a word, in lower case; of a number, as printed
  char first = 0;    // of a word, as printed: "M" is mega, "m" is not
  double value = 0, resolution = 0;
};

std::vector<Token> tokens_of(std::string_view line);

}  // namespace gpuwatch::trial
