#include "libckpt/format/npz/npy_header.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "libckpt/io/byte_cursor.h"
#include "libckpt/limits.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::DType;
using core::Error;
using core::ErrorCode;

constexpr std::uint64_t kVersionSize = 8;
constexpr std::size_t kGrowthDigits = 21;
constexpr std::uint64_t kAlignment = 64;

struct TypeName {
  std::string_view code;  ///< kind and size
  DType dtype;
};
constexpr std::array kTypes = {
    TypeName{"b1", DType::boolean}, TypeName{"i1", DType::i8},    TypeName{"i2", DType::i16},
    TypeName{"i4", DType::i32},     TypeName{"i8", DType::i64},   TypeName{"u1", DType::u8},
    TypeName{"u2", DType::u16},     TypeName{"u4", DType::u32},   TypeName{"u8", DType::u64},
    TypeName{"f2", DType::f16},     TypeName{"f4", DType::f32},   TypeName{"f8", DType::f64},
    TypeName{"c8", DType::c64},     TypeName{"c16", DType::c128}, TypeName{"V1", DType::bits8},
    TypeName{"V2", DType::bits16},
};

[[noreturn]] void bad_header(const std::string& why) {
  throw Error(ErrorCode::corrupt, "the .npy header " + why);
}

/// Scans the one dict literal that a header may hold.
class HeaderScanner {
 public:
  explicit HeaderScanner(std::string_view text) : text_(text) {}

  struct Fields {
    std::optional<std::string> descr;
    std::optional<bool> fortran;
    std::optional<core::Shape> shape;
  };

  Fields scan(std::uint64_t max_rank) {
    Fields fields;
    expect('{');
    while (!accept('}')) {
      scan_field(fields, max_rank);
      if (accept(',')) continue;
      expect('}');
      break;
    }
    skip_blanks();
    if (at_ != text_.size()) fail("is followed by other text");
    if (!fields.descr || !fields.fortran || !fields.shape) {
      bad_header("lacks " + std::string(!fields.descr ? "descr" : !fields.fortran ? "fortran_order" : "shape"));
    }
    return fields;
  }

 private:
  void scan_field(Fields& fields, std::uint64_t max_rank) {
    std::string_view key = scan_string();
    expect(':');
    if (key == "descr" && !fields.descr) {
      fields.descr = scan_descr();
    } else if (key == "fortran_order" && !fields.fortran) {
      fields.fortran = scan_bool();
    } else if (key == "shape" && !fields.shape) {
      fields.shape = scan_shape(max_rank);
    } else {
      bad_header("has the key " + core::quote(key, 60) +
                 " where only descr, fortran_order and shape belong, once each");
    }
  }

  std::string scan_descr() {
    skip_blanks();
    if (at_ < text_.size() && text_[at_] == '[') {
      throw Error(ErrorCode::unsupported, "a structured array (records of named fields) is not a tensor");
    }
    return std::string(scan_string());
  }

  std::string_view scan_string() {
    skip_blanks();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) fail("has no quoted text");
    std::size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) fail("has a text without an end");
    std::string_view found = text_.substr(at_ + 1, end - at_ - 1);
    if (found.find('\\') != std::string_view::npos) fail("has an escape in a text");
    at_ = end + 1;
    return found;
  }

  bool scan_bool() {
    for (std::string_view word : {"True", "False"}) {
      skip_blanks();
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return word == "True";
    }
    fail("has no True or False for fortran_order");
  }

  /// "()", "(3,)", "(3, 4)", "(3L, 4L)".
  core::Shape scan_shape(std::uint64_t max_rank) {
    core::Shape shape;
    expect('(');
    bool comma = true;
    while (!accept(')')) {
      if (!comma) fail("has a shape without commas");
      shape.push_back(scan_size());
      if (shape.size() > max_rank) {
        throw Error(ErrorCode::refused, "the array has more than " + std::to_string(max_rank) + " dimensions");
      }
      comma = accept(',');
    }
    if (shape.size() == 1 && !comma) fail("has a shape that is not a tuple");
    return shape;
  }

  std::int64_t scan_size() {
    skip_blanks();
    std::int64_t value = 0;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) fail("has a size past 64 bits");
    if (error != std::errc()) fail("has a shape that is not a tuple of integers");
    if (value < 0) fail("has the negative size " + std::to_string(value));
    bool zeros = text_[at_] == '0' && end > text_.data() + at_ + 1;
    if (zeros) fail("has a size with leading zeros in its shape, which NumPy does not read");
    at_ = static_cast<std::size_t>(end - text_.data());
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2
    return value;
  }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool accept(char wanted) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted)) fail(std::string("lacks a '") + wanted + "'");
  }
  [[noreturn]] void fail(const std::string& why) const { bad_header(why + " at character " + std::to_string(at_)); }

  std::string_view text_;
  std::size_t at_ = 0;
};

/// What is no number, in words.
void refuse_kind(const std::string& descr, char kind) {
  auto unsupported = [&](const std::string& what) {
    throw Error(ErrorCode::unsupported, what + " (descr " + core::quote(descr, 40) + ") is not a tensor");
  };
  switch (kind) {
    case 'O':
      throw Error(ErrorCode::refused, "an object array holds a Python pickle, which is never loaded");
    case 'S':
    case 'U':
    case 'a':
      unsupported("an array of text");
      break;
    case 'M':
    case 'm':
      unsupported("an array of dates or times");
      break;
    case 'V':
      unsupported("an array of raw records");
      break;
    case 'f':
    case 'c':
      unsupported("an array of extended precision");
      break;
    default:
      bad_header("has the unknown descr " + core::quote(descr, 40));
  }
}

void set_type(NpyHeader& header, const std::string& descr) {
  std::string_view code = descr;
  char order = code.empty() ? ' ' : code[0];
  if (order == '<' || order == '>' || order == '|' || order == '=') code.remove_prefix(1);
  auto found = std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeName& type) { return type.code == code; });
  if (found == kTypes.end()) {
    refuse_kind(descr, code.empty() ? ' ' : code[0]);
  } else {
    header.dtype = found->dtype;
  }
  header.big_endian = order == '>' && code[0] != 'V';
}

/// Where the text begins and how long it is.
struct Extent {
  std::uint64_t begin = 0;
  std::uint64_t length = 0;
};

Extent read_extent(const ByteSource& file) {
  core::ByteVector start(std::min<std::uint64_t>(file.size(), kVersionSize + 4));
  file.read(0, start);
  ByteCursor in(start, "the .npy file");
  if (in.take_text(kNpyMagic.size()) != kNpyMagic) throw Error(ErrorCode::corrupt, "this is not a .npy array");
  auto major = static_cast<unsigned>(in.take<std::uint8_t>());
  auto minor = static_cast<unsigned>(in.take<std::uint8_t>());
  if (major < 1 || major > 3 || minor != 0) {
    throw Error(ErrorCode::unsupported, "the .npy array has format version " + std::to_string(major) + "." +
                                            std::to_string(minor) + ", where 1.0, 2.0 and 3.0 are known");
  }
  std::uint64_t length = major == 1 ? in.take<std::uint16_t>() : in.take<std::uint32_t>();
  return {in.position(), length};
}

}  // namespace

NpyHeader read_npy_header(const ByteSource& file, std::uint64_t max_rank) {
  Extent extent = read_extent(file);
  if (extent.length > kMaxNpyHeader) {
    throw Error(ErrorCode::refused, "the .npy header is " + core::format_count(extent.length) +
                                        " bytes long, where at most " + core::format_count(kMaxNpyHeader) +
                                        " are read");
  }
  if (extent.length > file.size() - extent.begin) {
    bad_header("is cut off: " + std::to_string(file.size() - extent.begin) + " of " + std::to_string(extent.length) +
               " bytes are there");
  }
  core::ByteVector text(extent.length);
  file.read(extent.begin, text);
  HeaderScanner::Fields fields = HeaderScanner(core::as_text(text)).scan(max_rank);
  NpyHeader header;
  set_type(header, *fields.descr);
  header.fortran = *fields.fortran;
  header.shape = *fields.shape;
  header.data_offset = extent.begin + extent.length;
  return header;
}

std::string npy_descr(DType dtype) {
  auto found = std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeName& type) { return type.dtype == dtype; });
  if (found == kTypes.end()) return "";
  bool plain = core::bit_width(dtype) == 8 || found->code[0] == 'V';
  return (plain ? "|" : "<") + std::string(found->code);
}

std::string make_npy_header(DType dtype, const core::Shape& shape) {
  std::string sizes;
  for (std::int64_t size : shape) sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  if (shape.size() == 1) sizes += ",";
  std::string text = "{'descr': '" + npy_descr(dtype) + "', 'fortran_order': False, 'shape': (" + sizes + "), }";
  // Room for the first size to grow in place.
  if (!shape.empty()) text.append(kGrowthDigits - std::to_string(shape[0]).size(), ' ');
  std::uint64_t before = kVersionSize + 2;
  text.append(kAlignment - (before + text.size() + 1) % kAlignment, ' ');
  text += '\n';
  std::string out(kNpyMagic);
  out += std::string_view("\x01\x00", 2);
  out += static_cast<char>(text.size() & 0xff);
  out += static_cast<char>(text.size() >> 8);
  return out + text;
}

}  // namespace ckpt::detail
