#pragma once
// Code points of UTF-8 texts: their classes, lower case, normal forms, clusters. All texts are well-formed UTF-8
// (mend() makes them so). Thread safety: pure functions. Use: for (auto [point, begin, end] : zoo::text::points("né"))
// {}

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zoo::text {

struct Point {
  char32_t value = 0;
  std::size_t begin = 0;  ///< of its bytes
  std::size_t end = 0;
};

std::vector<Point> points(std::string_view text);
std::size_t count_points(std::string_view text);
void append(std::string& text, char32_t point);
/// Bytes that are no UTF-8 become U+FFFD, one for each longest beginning of a character, as in Rust and Python.
std::string mend(std::string_view bytes);

bool is_space(char32_t point);
bool is_number(char32_t point);       ///< Nd, Nl, No
bool is_punctuation(char32_t point);  ///< P*, and what ASCII counts as such: "$+<=>^`|~"
bool is_mark(char32_t point);         ///< Mn, Mc, Me
bool is_nonspacing_mark(char32_t point);
bool is_control(char32_t point);    ///< Cc, Cf, Co without tab and line ends
bool is_word(char32_t point);       ///< what \w of a regular expression takes
bool is_ideograph(char32_t point);  ///< what BERT puts spaces around

/// Each character by itself: no rule of a language or of what stands beside it.
std::string lower(std::string_view text);

enum class Form : std::uint8_t { nfc, nfd, nfkc, nfkd };
std::string normal_form(std::string_view text, Form form);

/// What a reader sees as one character: where each ends.
std::vector<std::size_t> cluster_ends(std::string_view text);

}  // namespace zoo::text
