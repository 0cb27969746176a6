// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "analyzer/io/printable.h"

namespace gpuwatch::io {
namespace {

TEST(Printable, LeavesOrdinaryTextAlone) {
  EXPECT_EQ(printable("void at::native::vectorized_elementwise_kernel<4>"),
            "void at::native::vectorized_elementwise_kernel<4>");
  EXPECT_EQ(printable("données/größe/学習.py"), "données/größe/学習.py");
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, RemovesEscapeSequencesWithTheirParameters) {
  EXPECT_EQ(printable("a\x1b[31;1mred\x1b[0mb"), "a?red?b");
  EXPECT_EQ(printable("\x1b]0;new title\x07kernel"), "?kernel");
  EXPECT_EQ(printable("\x1bPq#0\x1b\\kernel"), "?kernel");
  EXPECT_EQ(printable("a\x9b"
                      "31mb"),
            "a?31mb");                            // a lone C1 byte is not UTF-8
  EXPECT_EQ(printable("a\u009b31mb"), "a?31mb");  // as a code point it is a control character
  EXPECT_EQ(printable("cut\x1b["), "cut?");
  EXPECT_EQ(printable("cut\x1b"), "cut?");
}

TEST(Printable, ControlCharactersAndLineBreaks) {
  EXPECT_EQ(printable("a\nb\tc\rd"), "a b c d");
  EXPECT_EQ(printable(std::string_view("a\0b\x7f", 4)), "a?b?");
  EXPECT_EQ(printable("\x01\x02\x03x"), "?x");  // a run is one mark
}

TEST(Printable, HidesReorderingAndInvisibleCharacters) {
  EXPECT_EQ(printable("exe\u202etxt.py"), "exe?txt.py");
  EXPECT_EQ(printable("a\u200bb\u2066c\ufeffd"), "a?b?c?d");
}

TEST(Printable, RejectsInvalidUtf8) {
  EXPECT_EQ(printable("a\xc0\x80z"), "a?z");          // overlong
  EXPECT_EQ(printable("a\xed\xa0\x80z"), "a?z");      // surrogate
  EXPECT_EQ(printable("a\xf5\x80\x80\x80z"), "a?z");  // beyond Unicode
  EXPECT_EQ(printable("a\xe2\x82"), "a?");            // cut short
}

TEST(Printable, ShortensInTheMiddleAtACharacter) {
  EXPECT_EQ(printable("abcdefghijklmnop", 9), "abc...nop");
  EXPECT_EQ(printable("ääääää", 9), "ä...ä");
  EXPECT_EQ(printable("abcdef", 2), "..");
  const std::string path = "/very" + std::string(1 << 20, 'x') + "/train.py";
  const std::string shown = printable(path);
  EXPECT_LE(shown.size(), kPrintableBytes);
  EXPECT_EQ(shown.substr(0, 5), "/very");
  EXPECT_EQ(shown.substr(shown.size() - 9), "/train.py");
}

TEST(Printable, RandomBytesGiveBoundedTextWithoutControlCharacters) {
  std::mt19937 random(7);
  for (int round = 0; round < 20000; ++round) {
    std::string text(random() % 64, '\0');
    for (auto& c : text) c = static_cast<char>(random());
    const std::string shown = printable(text, 40);
    ASSERT_LE(shown.size(), 40u);
    ASSERT_EQ(printable(shown, 40), shown) << "not stable";
    ASSERT_TRUE(
        std::none_of(shown.begin(), shown.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }));
  }
}

}  // namespace
}  // namespace gpuwatch::io
