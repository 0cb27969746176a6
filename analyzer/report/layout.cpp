// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/layout.h"

#include <fmt/format.h>

#include <algorithm>

namespace gpuwatch::report {
namespace {

constexpr size_t kLabelWidth = 11;
constexpr size_t kLeastWidth = 40;

std::string spaces(size_t count) {
  return std::string(count, ' ');
}

}  // namespace

size_t columns(std::string_view text) {
  return size_t(std::count_if(text.begin(), text.end(),
                              [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

Layout::Layout(TextStyle style) : style_(style) {
  style_.width = std::max(style.width, kLeastWidth);
}

void Layout::headline(const std::string& sentence, fmt::color color) {
  const size_t colon = sentence.find(": ");
  std::string wrapped = wrap(sentence, 0, 0);
  if (style_.colors && colon != std::string::npos)
    wrapped = fmt::format(fmt::emphasis::bold | fmt::fg(color), "{}", wrapped.substr(0, colon)) +
              wrapped.substr(colon);
  out_ += wrapped + "\n";
}

void Layout::paragraph(const std::string& words, size_t indent) {
  if (!words.empty()) out_ += spaces(indent) + wrap(words, indent, indent) + "\n";
}

void Layout::labelled(std::string_view label, const std::string& words) {
  if (words.empty()) return;
  std::string head = fmt::format("{:<{}}", label, kLabelWidth);
  if (style_.colors && !label.empty()) head = fmt::format(fmt::emphasis::faint, "{}", head);
  out_ += head + wrap(words, kLabelWidth, kLabelWidth) + "\n";
}

void Layout::both_ends(const std::string& left, const std::string& right, size_t indent) {
  constexpr size_t kLeastGap = 2;
  const std::string wrapped = wrap(left, 0, indent);
  const size_t last_line = columns(std::string_view(wrapped).substr(wrapped.find_last_of('\n') + 1));
  out_ += bold(wrapped);
  if (!right.empty()) {
    const size_t wanted = columns(right);
    if (last_line + kLeastGap + wanted <= style_.width)
      out_ += spaces(style_.width - last_line - wanted);
    else
      out_ += "\n" + spaces(std::max(indent, style_.width - std::min(style_.width, wanted)));
    out_ += bold(right);
  }
  out_ += '\n';
}

void Layout::row(const std::string& columns_text, const std::string& words, size_t least) {
  constexpr size_t kIndentBelow = 6;
  const size_t used = columns(columns_text);
  const std::string head = columns_text.substr(0, columns_text.find_last_not_of(' ') + 1);
  if (words.empty())
    out_ += head;
  else if (used + least <= style_.width)
    out_ += columns_text + wrap(words, used, used);
  else
    out_ += head + "\n" + spaces(kIndentBelow) + wrap(words, kIndentBelow, kIndentBelow);
  out_ += '\n';
}

// Breaks at spaces; what has none stays whole. `used`: columns that are taken on the first line.
std::string Layout::wrap(const std::string& words, size_t used, size_t indent) const {
  std::string result;
  for (size_t begin = 0; begin <= words.size();) {
    const size_t space = std::min(words.find(' ', begin), words.size());
    const std::string_view word = std::string_view(words).substr(begin, space - begin);
    const size_t width = columns(word);
    if (begin > 0 && used + 1 + width > style_.width) {
      result += "\n" + spaces(indent);
      used = indent;
    } else if (begin > 0) {
      result += ' ';
      ++used;
    }
    result += word;
    used += width;
    begin = space + 1;
  }
  return result;
}

std::string Layout::bold(const std::string& words) const {
  return style_.colors ? fmt::format(fmt::emphasis::bold, "{}", words) : words;
}

}  // namespace gpuwatch::report
