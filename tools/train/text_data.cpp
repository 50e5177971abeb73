#include "tools/train/text_data.h"

#include <algorithm>
#include <set>

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "zoo/data/idx.h"

namespace train {
namespace {

using core::Error;
using core::ErrorCode;

std::u32string code_points(const std::string& text) {
  if (!core::is_utf8(text)) throw Error(ErrorCode::corrupt, "the text is not UTF-8");
  std::u32string points;
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const int more = lead < 0x80 ? 0 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    char32_t point = more == 0 ? lead : lead & (0x3fU >> more);
    for (int k = 1; k <= more; ++k) point = point << 6 | (static_cast<unsigned char>(text[i + k]) & 0x3fU);
    points += point;
    i += static_cast<std::size_t>(more) + 1;
  }
  return points;
}

void append_utf8(std::string& out, char32_t point) {
  const auto byte = [&](char32_t value) { out += static_cast<char>(value); };
  if (point < 0x80) return byte(point);
  if (point < 0x800) {
    byte(0xc0 | point >> 6);
  } else if (point < 0x10000) {
    byte(0xe0 | point >> 12);
    byte(0x80 | (point >> 6 & 0x3f));
  } else {
    byte(0xf0 | point >> 18);
    byte(0x80 | (point >> 12 & 0x3f));
    byte(0x80 | (point >> 6 & 0x3f));
  }
  byte(0x80 | (point & 0x3f));
}

}  // namespace

Symbols::Symbols(const std::string& text) {
  const std::u32string points = code_points(text);
  const std::set<char32_t> different(points.begin(), points.end());
  points_.assign(different.begin(), different.end());
}

std::vector<std::int64_t> Symbols::encode(const std::string& text) const {
  std::vector<std::int64_t> codes;
  for (char32_t point : code_points(text)) {
    const auto found = std::lower_bound(points_.begin(), points_.end(), point);
    if (found == points_.end() || *found != point) {
      std::string shown;
      append_utf8(shown, point);
      throw Error(ErrorCode::usage, "the model has never seen the character " + core::quote(shown));
    }
    codes.push_back(found - points_.begin());
  }
  return codes;
}

std::string Symbols::decode(const std::vector<std::int64_t>& codes) const {
  std::string out;
  for (std::int64_t code : codes) append_utf8(out, points_.at(static_cast<std::size_t>(code)));
  return out;
}

std::string Symbols::text() const {
  std::string out;
  for (char32_t point : points_) append_utf8(out, point);
  return out;
}

TextData load_text(const std::string& file, std::int64_t length, const Symbols* known) {
  return core::with_context(file, [&] {
    const core::ByteVector bytes = zoo::read_unpacked(file);
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    TextData data{.source = file, .symbols = known != nullptr ? *known : Symbols(text), .train = {}, .held = {}};
    const std::vector<std::int64_t> codes = data.symbols.encode(text);
    const auto cut = static_cast<std::ptrdiff_t>(static_cast<double>(codes.size()) * 0.9);
    data.train.assign(codes.begin(), codes.begin() + cut);
    data.held.assign(known != nullptr ? codes.begin() : codes.begin() + cut, codes.end());
    if (cut <= length + 1) {
      throw Error(ErrorCode::usage,
                  std::to_string(codes.size()) + " characters are too few for a --length of " + std::to_string(length));
    }
    return data;
  });
}

}  // namespace train
