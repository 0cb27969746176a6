// SPDX-License-Identifier: Apache-2.0
#include "analyzer/trial/output_tokens.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace gpuwatch::trial {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  return result;
}

class Tokenizer {
 public:
  explicit Tokenizer(std::string_view line) : line_(line) {}

  std::vector<Token> tokens() {
    std::vector<Token> result;
    bool is_spaced = true;
    while (at_ < line_.size()) {
      if (line_[at_] == ' ' || line_[at_] == '\t') {
        ++at_;
        is_spaced = true;
        continue;
      }
      result.push_back(is_digit(line_[at_]) ? number() : is_letter(line_[at_]) ? word() : sign());
      result.back().is_spaced = is_spaced;
      is_spaced = false;
    }
    return result;
  }

 private:
  char peek(size_t ahead) const { return at_ + ahead < line_.size() ? line_[at_ + ahead] : '\0'; }

  Token sign() {
    Token token;
    token.sign = line_[at_++];
    return token;
  }

  Token word() {
    const size_t begin = at_;
    while (is_letter(peek(0)) || is_digit(peek(0))) ++at_;
    Token token;
    token.kind = Token::kWord;
    token.text = lower(line_.substr(begin, at_ - begin));
    token.first = line_[begin];
    return token;
  }

  // "1,234": Python's {:,} groups by three digits.
  bool is_thousands_separator() const {
    return peek(0) == ',' && is_digit(peek(1)) && is_digit(peek(2)) && is_digit(peek(3)) &&
           !is_digit(peek(4));
  }

  int exponent() {
    const size_t sign = peek(1) == '-' || peek(1) == '+';
    if ((peek(0) != 'e' && peek(0) != 'E') || !is_digit(peek(1 + sign))) return 0;
    const bool is_negative = peek(1) == '-';
    at_ += 1 + sign;
    int value = 0;
    for (; is_digit(peek(0)); ++at_) value = std::min(value * 10 + (line_[at_] - '0'), 999);
    return is_negative ? -value : value;
  }

  Token number() {
    const size_t begin = at_;
    Token token;
    token.kind = Token::kNumber;
    std::string digits;
    for (; is_digit(peek(0)) || is_thousands_separator(); ++at_)
      if (is_digit(peek(0))) digits += line_[at_];
    int decimals = 0;
    if (peek(0) == '.' && is_digit(peek(1))) {
      for (digits += line_[at_++]; is_digit(peek(0)); ++at_, ++decimals) digits += line_[at_];
    }
    const int scale = exponent();
    token.text = digits;
    double mantissa = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), mantissa);
    token.value = mantissa * std::pow(10.0, scale);
    token.resolution = 0.5 * std::pow(10.0, scale - decimals);
    token.is_clean = stands_alone(begin) && std::isfinite(token.value) && token.value > 0 && peek(0) != '.' &&
                     peek(0) != '%' && token.resolution < token.value;
    return token;
  }

  bool stands_alone(size_t begin) const {
    if (begin == 0) return true;
    const char before = line_[begin - 1];
    const bool is_clock = before == ':' && begin > 1 && is_digit(line_[begin - 2]);
    return before != '.' && before != '-' && before != '/' && before != '_' && !is_clock;
  }

  std::string_view line_;
  size_t at_ = 0;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view line) {
  return Tokenizer(line).tokens();
}

}  // namespace gpuwatch::trial
