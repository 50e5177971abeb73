// What may go to a terminal as it is.
#include "tools/ckpt/output/visible_text.h"

#include <gtest/gtest.h>

namespace {

// Wherever in a text it stands: many characters are looked at together.
TEST(PlainText, IsPrintableAsciiAndLineEnds) {
  const auto plain = [](int c) { return c == '\n' || (c >= 0x20 && c < 0x7f); };
  for (std::size_t size : {1, 2, 15, 16, 17, 33, 4095, 4096, 4097, 8200}) {
    std::string text(size, 'a');
    EXPECT_TRUE(cli::is_plain_text(text)) << size;
    for (std::size_t at : {std::size_t{0}, size / 2, size - 1}) {
      for (int c = 0; c < 256; ++c) {
        text[at] = static_cast<char>(c);
        EXPECT_EQ(cli::is_plain_text(text), plain(c)) << size << ' ' << at << ' ' << c;
      }
      text[at] = 'a';
    }
  }
  EXPECT_TRUE(cli::is_plain_text(""));
}

}  // namespace
