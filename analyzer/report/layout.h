// SPDX-License-Identifier: Apache-2.0
// Lays out a report in columns of a terminal: wrapped at spaces, labels in a column of their own width, two
// texts at the two ends of a line. Colors are ANSI escape sequences; text is expected to be printable UTF-8
// (io/printable.h). Not thread safe; one per report.
#pragma once

#include <fmt/color.h>

#include <string>
#include <string_view>

#include "analyzer/report/report.h"

namespace gpuwatch::report {

class Layout {
 public:
  explicit Layout(TextStyle style);

  void blank() { out_ += '\n'; }
  // "INPUT-BOUND: the GPU idles ...", colored up to the colon.
  void headline(const std::string& sentence, fmt::color color);
  void paragraph(const std::string& words, size_t indent = 0);
  // "next       set num_workers=4 ...": a label, and its text in the column behind it. Nothing without text.
  void labelled(std::string_view label, const std::string& words);
  // Text at the left, `right` at the right end of the same line or, where both do not fit, of the next.
  void both_ends(const std::string& left, const std::string& right, size_t indent);
  // A row whose text begins at a column and is continued there; below it where less than `least` is left.
  void row(const std::string& columns_text, const std::string& words, size_t least);

  size_t width() const { return style_.width; }
  const char* arrow() const { return style_.unicode ? "→" : "->"; }
  const char* dash() const { return style_.unicode ? "–" : "-"; }
  std::string take() { return std::move(out_); }

 private:
  std::string wrap(const std::string& words, size_t used, size_t indent) const;
  std::string bold(const std::string& words) const;

  TextStyle style_;
  std::string out_;
};

// Columns that valid UTF-8 text takes; printable() leaves no character that is wider or narrower by design.
size_t columns(std::string_view text);

}  // namespace gpuwatch::report
