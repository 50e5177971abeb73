#pragma once
// Texts that try to leave the place they are put in: quotes, substitutions, escapes, marks that reorder text.
// Use: NastyText nasty(7); write_model(dir, nasty.file_name() + ".pth", {nasty.key()});

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

namespace test {

class NastyText {
 public:
  explicit NastyText(std::uint32_t seed) : random_(seed) {}

  std::size_t below(std::size_t count) { return random_() % count; }

  /// One to four pieces, some of them harmless. No dots, so that a key can be built of it.
  std::string component() {
    std::string out;
    for (std::size_t n = 1 + below(4); n > 0; --n) {
      out += below(3) == 0 ? std::string(kPlain[below(kPlain.size())]) : std::string(kNasty[below(kNasty.size())]);
    }
    if (below(40) == 0) out += std::string(900, 'x');
    return out;
  }
  /// The same as a name in a folder: no '/', no NUL, not too long, now and then with a byte that is no UTF-8.
  std::string file_name() {
    std::string out;
    for (char c : component()) {
      if (c != '/' && c != '\0' && out.size() < 120) out += c;
    }
    if (below(8) == 0) out.insert(0, "-o ");
    if (below(8) == 0) out += "\xff";
    if (below(8) == 0) out += " ";
    return out.empty() ? "x" : out;
  }

 private:
  static constexpr std::array<std::string_view, 6> kPlain = {"fc", "layer1", "weight", "0", "conv", "a_b"};
  static constexpr std::array<std::string_view, 56> kNasty = {"'",
                                                              "\"",
                                                              "\\",
                                                              "$",
                                                              "`",
                                                              "\n",
                                                              "\r",
                                                              "\t",
                                                              "\x1b[31m",
                                                              "\x1b]0;title\x07",
                                                              std::string_view("\0", 1),
                                                              "\x7f",
                                                              "\xc2\x9b"
                                                              "2J",
                                                              "\xe2\x80\xae",
                                                              "\xe2\x81\xa6",
                                                              "\xe2\x80\x8b",
                                                              "\xf3\xa0\x81\x81",
                                                              "\xef\xbf\xb9",
                                                              "\xe2\x80\xa8",
                                                              "$(touch canary)",
                                                              "`touch canary`",
                                                              "'; touch canary; '",
                                                              "\"; touch canary; \"",
                                                              "\\'; touch canary; \\'",
                                                              "\n touch canary\n",
                                                              "$'\\''touch canary",
                                                              "; touch canary #",
                                                              "&& touch canary",
                                                              "| touch canary",
                                                              "> canary",
                                                              "' + open(\"canary\",\"w\").name + '",
                                                              "\\' + open(\"canary\",\"w\").name + \\'",
                                                              "'''",
                                                              "\"\"\"",
                                                              "{}",
                                                              "{x}",
                                                              "{#i}",
                                                              "%s",
                                                              "%",
                                                              "#",
                                                              "!",
                                                              "~",
                                                              "*",
                                                              "?",
                                                              "[a-z]",
                                                              "[",
                                                              "]",
                                                              "::",
                                                              "-",
                                                              "@dtype=f32",
                                                              "re:x",
                                                              "=",
                                                              " ",
                                                              "\xc3\xa9\xe6\x97\xa5",
                                                              "\xf0\x9f\x98\x80\xef\xb8\x8f",
                                                              "\nINJECTED"};
  std::mt19937 random_;
};

}  // namespace test
