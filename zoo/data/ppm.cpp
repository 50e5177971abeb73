#include "zoo/data/ppm.h"

#include <algorithm>
#include <optional>
#include <string>

#include "libcore/base/error.h"

namespace zoo {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::int64_t kMaxNumber = 1'000'000'000;

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  /// Spaces, then digits; in the header '#' begins a comment up to the end of its line.
  std::int64_t number(const char* what, bool comments) {
    skip(comments);
    std::int64_t value = 0;
    std::size_t digits = 0;
    for (; at_ < text_.size() && is_digit(text_[at_]); ++at_, ++digits) {
      value = value * 10 + (text_[at_] - '0');
      if (value > kMaxNumber) throw Error(ErrorCode::corrupt, std::string("its ") + what + " is not a sensible number");
    }
    if (digits != 0) return value;
    if (at_ == text_.size()) throw Error(ErrorCode::corrupt, std::string("cut off before its ") + what);
    throw Error(ErrorCode::corrupt, std::string("its ") + what + " is not a number");
  }

  /// What stands behind the one space that ends the header.
  std::string_view body() {
    if (at_ == text_.size()) throw Error(ErrorCode::corrupt, "cut off after its header");
    if (!is_space(text_[at_])) throw Error(ErrorCode::corrupt, "its header does not end in a space");
    return text_.substr(at_ + 1);
  }

 private:
  void skip(bool comments) {
    for (; at_ < text_.size(); ++at_) {
      if (comments && text_[at_] == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
        if (at_ == text_.size()) return;
      } else if (!is_space(text_[at_])) {
        return;
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 2;  // behind the magic
};

struct Header {
  bool plain;  ///< numbers as text
  std::int64_t channels;
};

Header parse_magic(std::string_view text) {
  if (text.size() < 2 || text[0] != 'P' || text[1] < '1' || text[1] > '7') {
    throw Error(ErrorCode::corrupt, "no PPM or PGM image");
  }
  const char kind = text[1];
  if (kind == '1' || kind == '4' || kind == '7') {
    throw Error(ErrorCode::unsupported, std::string("Netpbm's form P") + kind + " is not read; P2, P3, P5 and P6 are");
  }
  return {kind == '2' || kind == '3', kind == '3' || kind == '6' ? 3 : 1};
}

/// How values become bytes.
struct Scale {
  std::int64_t largest;
  bool clips;

  std::uint8_t operator()(std::int64_t value) const;
};

std::uint8_t Scale::operator()(std::int64_t value) const {
  if (value > largest) {
    throw Error(ErrorCode::corrupt, "holds the value " + std::to_string(value) + " where its header says at most " +
                                        std::to_string(largest));
  }
  const std::int64_t range = clips ? 65535 : 255;
  return static_cast<std::uint8_t>(std::min<std::int64_t>(255, (value * range * 2 + largest) / (2 * largest)));
}

void read_bytes(Image& image, std::string_view body, const Scale& scaled) {
  const std::size_t width = scaled.largest > 255 ? 2 : 1;
  const auto* from = reinterpret_cast<const std::uint8_t*>(body.data());
  for (std::uint8_t& pixel : image.pixels) {
    pixel = scaled(width == 1 ? from[0] : from[0] * 256 + from[1]);
    from += width;
  }
}

}  // namespace

Image parse_ppm(core::Bytes content, WideGrey wide) {
  const std::string_view text = core::as_text(content);
  const Header header = parse_magic(text);
  Reader reader(text);
  const std::int64_t width = reader.number("width", true);
  const std::int64_t height = reader.number("height", true);
  const std::int64_t largest = reader.number("largest value", true);
  if (largest < 1 || largest > 65535) {
    throw Error(ErrorCode::corrupt, "its largest value is " + std::to_string(largest) + "; 1 to 65535 are possible");
  }
  const std::string_view body = reader.body();
  // A value takes at least so many bytes: memory is taken only for what can be there.
  const std::int64_t least = header.plain || largest <= 255 ? 1 : 2;
  const std::int64_t there = static_cast<std::int64_t>(body.size()) / least;
  if (width > 0 && height > 0 && width <= kMaxPixels / height && there < width * height * header.channels) {
    throw Error(ErrorCode::corrupt, "cut off: at most " + std::to_string(there) + " of the " +
                                        std::to_string(width * height * header.channels) + " values of an image of " +
                                        std::to_string(width) + " x " + std::to_string(height) + " pixels");
  }
  Image image = make_image(width, height, header.channels);
  const Scale scaled{largest, wide == WideGrey::clipped && header.channels == 1 && largest > 255};
  if (!header.plain) {
    read_bytes(image, body, scaled);
    return image;
  }
  for (std::uint8_t& pixel : image.pixels) pixel = scaled(reader.number("next value", false));
  return image;
}

}  // namespace zoo
