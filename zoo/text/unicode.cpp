#include "zoo/text/unicode.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace zoo::text {
namespace {

utf8proc_category_t category(char32_t point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(point));
}

bool is_trail(unsigned char byte) {
  return (byte & 0xc0) == 0x80;
}

/// How many bytes a character has that begins with `lead`, and what its second byte may be; 0 for no beginning.
struct Lead {
  std::size_t length = 0;
  unsigned char lowest = 0x80;
  unsigned char highest = 0xbf;
};

Lead lead_of(unsigned char lead) {
  if (lead < 0x80) return {1};
  if (lead < 0xc2) return {};
  if (lead < 0xe0) return {2};
  if (lead < 0xf0)
    return {3, static_cast<unsigned char>(lead == 0xe0 ? 0xa0 : 0x80),
            static_cast<unsigned char>(lead == 0xed ? 0x9f : 0xbf)};
  if (lead < 0xf5)
    return {4, static_cast<unsigned char>(lead == 0xf0 ? 0x90 : 0x80),
            static_cast<unsigned char>(lead == 0xf4 ? 0x8f : 0xbf)};
  return {};
}

}  // namespace

std::vector<Point> points(std::string_view text) {
  std::vector<Point> out;
  out.reserve(text.size());
  std::size_t at = 0;
  while (at < text.size()) {
    utf8proc_int32_t value = 0;
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at;
    const utf8proc_ssize_t length = utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(text.size() - at), &value);
    if (length <= 0) throw core::Error(core::ErrorCode::internal, "a text is no UTF-8");
    out.push_back({static_cast<char32_t>(value), at, at + static_cast<std::size_t>(length)});
    at = out.back().end;
  }
  return out;
}

std::size_t count_points(std::string_view text) {
  std::size_t count = 0;
  for (char c : text) count += is_trail(static_cast<unsigned char>(c)) ? 0 : 1;
  return count;
}

void append(std::string& text, char32_t point) {
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(point), bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
}

std::string mend(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  std::size_t at = 0;
  while (at < bytes.size()) {
    const Lead lead = lead_of(static_cast<unsigned char>(bytes[at]));
    std::size_t good = 1;
    while (good < lead.length && at + good < bytes.size()) {
      const auto byte = static_cast<unsigned char>(bytes[at + good]);
      if (good == 1 ? byte < lead.lowest || byte > lead.highest : !is_trail(byte)) break;
      ++good;
    }
    if (lead.length != 0 && good == lead.length) {
      out += bytes.substr(at, good);
    } else {
      out += "\xEF\xBF\xBD";
    }
    at += good;
  }
  return out;
}

bool is_space(char32_t point) {
  return (point >= 9 && point <= 13) || point == 0x20 || point == 0x85 || point == 0xa0 || point == 0x1680 ||
         (point >= 0x2000 && point <= 0x200a) || point == 0x2028 || point == 0x2029 || point == 0x202f ||
         point == 0x205f || point == 0x3000;
}

bool is_number(char32_t point) {
  const auto kind = category(point);
  return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_NO;
}

bool is_punctuation(char32_t point) {
  if (point < 0x80)
    return std::string_view("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~").find(static_cast<char>(point)) !=
           std::string_view::npos;
  const auto kind = category(point);
  return kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
}

bool is_mark(char32_t point) {
  const auto kind = category(point);
  return kind >= UTF8PROC_CATEGORY_MN && kind <= UTF8PROC_CATEGORY_ME;
}

bool is_nonspacing_mark(char32_t point) {
  return category(point) == UTF8PROC_CATEGORY_MN;
}

bool is_control(char32_t point) {
  if (point == '\t' || point == '\n' || point == '\r') return false;
  const auto kind = category(point);
  return kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_CO;
}

bool is_word(char32_t point) {
  const auto kind = category(point);
  if (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_NL) return true;  // letters, marks, Nd, Nl
  const bool circled_letter = (point >= 0x24b6 && point <= 0x24e9) || (point >= 0x1f130 && point <= 0x1f149) ||
                              (point >= 0x1f150 && point <= 0x1f169) || (point >= 0x1f170 && point <= 0x1f189);
  return kind == UTF8PROC_CATEGORY_PC || circled_letter || point == 0x200c || point == 0x200d;
}

bool is_ideograph(char32_t point) {
  return (point >= 0x4e00 && point <= 0x9fff) || (point >= 0x3400 && point <= 0x4dbf) ||
         (point >= 0x20000 && point <= 0x2a6df) || (point >= 0x2a700 && point <= 0x2b73f) ||
         (point >= 0x2b740 && point <= 0x2b81f) || (point >= 0x2b920 && point <= 0x2ceaf) ||
         (point >= 0xf900 && point <= 0xfaff) || (point >= 0x2f800 && point <= 0x2fa1f);
}

std::string lower(std::string_view text) {
  std::string out;
  for (const Point& point : points(text)) {
    if (point.value == 0x130) {
      out += "i\xCC\x87";  // the one character whose lower case is two
    } else {
      append(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(point.value))));
    }
  }
  return out;
}

std::string normal_form(std::string_view text, Form form) {
  int options = UTF8PROC_STABLE;
  options |= form == Form::nfc || form == Form::nfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == Form::nfkc || form == Form::nfkd) options |= UTF8PROC_COMPAT;
  utf8proc_uint8_t* bytes = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &bytes, static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owned(bytes, std::free);
  if (length < 0)
    throw core::Error(core::ErrorCode::refused, "a text cannot be normalised: " + std::string(utf8proc_errmsg(length)));
  return std::string(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
}

std::vector<std::size_t> cluster_ends(std::string_view text) {
  std::vector<std::size_t> ends;
  utf8proc_int32_t state = 0;
  char32_t before = 0;
  for (const Point& point : points(text)) {
    if (point.begin != 0 && utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(before),
                                                             static_cast<utf8proc_int32_t>(point.value), &state) != 0) {
      ends.push_back(point.begin);
    }
    before = point.value;
  }
  if (!text.empty()) ends.push_back(text.size());
  return ends;
}

}  // namespace zoo::text
