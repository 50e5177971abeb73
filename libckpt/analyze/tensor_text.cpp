#include "libckpt/analyze/tensor_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "libckpt/analyze/numbers.h"
#include "libckpt/blocks/unpacked.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::DType;

/// How floats are written: as PyTorch chooses for all values that are shown.
struct FloatStyle {
  bool integers = true;     ///< "1." for all of them
  bool scientific = false;  ///< "1.0000e-05"
  int precision = 4;

  std::string text(double value) const {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
    char buffer[64];
    std::snprintf(buffer, sizeof buffer, scientific ? "%.*e" : "%.*f", integers && !scientific ? 0 : precision, value);
    return std::string(buffer) + (integers && !scientific ? "." : "");
  }
};

FloatStyle style_of(const std::vector<double>& values, int precision) {
  FloatStyle style;
  style.precision = precision;
  double largest = 0;
  double smallest = INFINITY;
  for (double value : values) {
    if (!std::isfinite(value) || value == 0) continue;
    style.integers &= value == std::ceil(value);
    largest = std::max(largest, std::abs(value));
    smallest = std::min(smallest, std::abs(value));
  }
  if (largest == 0) return style;
  bool wide = largest / smallest > 1000;
  style.scientific = style.integers ? wide || largest > 1e8 : wide || largest > 1e8 || smallest < 1e-4;
  if (style.scientific) style.integers = false;
  return style;
}

/// The indexes of a dimension that are shown; -1 stands for the dots between.
std::vector<std::int64_t> shown_of(std::int64_t size, bool summary, std::int64_t edge) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < size; ++i) {
    if (summary && size > 2 * edge && i == edge) {
      out.push_back(-1);
      i = size - edge;
    }
    out.push_back(i);
  }
  return out;
}

class Printer {
 public:
  Printer(const Entry& entry, const TensorTextOptions& options)
      : entry_(entry),
        options_(options),
        raw_(entry.blocks.has_value() || detail::numbers_per_element(entry.dtype) == 0 ||
             core::bit_width(entry.dtype) % 8 != 0 || entry.dtype == DType::f4_e2m1fn_x2),
        width_(raw_ ? 1 : static_cast<std::uint64_t>(core::bit_width(entry.dtype)) / 8),
        shape_(raw_ ? core::Shape{static_cast<std::int64_t>(entry.byte_size())} : entry.shape),
        summary_(static_cast<std::uint64_t>(shape_.numel()) > options.threshold) {}

  std::string run() {
    read_all_shown();
    make_texts();
    std::string out = "tensor(";
    out += shape_.numel() == 0 ? "[]" : body(0, 7);
    if (shape_.numel() == 0 && shape_.size() != 1) out += ", size=" + tuple_text();
    if (names_dtype()) out += ", dtype=torch." + std::string(raw_ ? "uint8" : core::name(entry_.dtype));
    return out + ")";
  }

 private:
  bool names_dtype() const {
    if (shape_.numel() == 0) return entry_.dtype != DType::f32;
    return raw_ || (entry_.dtype != DType::f32 && entry_.dtype != DType::i64 && entry_.dtype != DType::boolean &&
                    entry_.dtype != DType::c64);
  }

  std::string tuple_text() const {
    std::string text = core::to_list(shape_);
    return "(" + text.substr(1, text.size() - 2) + (shape_.size() == 1 ? ",)" : ")");
  }

  std::vector<std::int64_t> shown(std::size_t dim) const { return shown_of(shape_[dim], summary_, options_.edge); }

  /// Bytes of the shown values, in order. Rows are read in one or two runs.
  void read_all_shown() {
    if (shape_.numel() > 0) read_below(0, 0);
  }
  void read_below(std::size_t dim, std::uint64_t offset) {
    if (dim == shape_.size()) return read_run(offset, 1);
    core::Shape strides = core::contiguous_strides(shape_);
    std::vector<std::int64_t> indexes = shown(dim);
    bool last = dim + 1 == shape_.size();
    std::size_t run = 0;
    for (std::size_t i = 0; i < indexes.size(); ++i) {
      if (indexes[i] < 0) continue;
      if (!last) {
        read_below(dim + 1, offset + static_cast<std::uint64_t>(indexes[i] * strides[dim]));
        continue;
      }
      ++run;
      bool ends = i + 1 == indexes.size() || indexes[i + 1] < 0;
      if (!ends) continue;
      read_run(offset + static_cast<std::uint64_t>(indexes[i]) + 1 - run, run);
      run = 0;
    }
  }
  void read_run(std::uint64_t first, std::uint64_t count) {
    std::size_t at = bytes_.size();
    bytes_.resize(at + count * width_);
    entry_.bytes->read(first * width_, MutableBytes(bytes_).subspan(at));
    entry_.bytes->require_unchanged();
  }

  void make_texts() {
    if (!raw_ && (entry_.conjugate || entry_.negative)) detail::resolve_flags(entry_, bytes_);
    if (raw_) {
      for (std::byte byte : bytes_) texts_.push_back(std::to_string(std::to_integer<int>(byte)));
    } else if (core::is_floating(entry_.dtype) || core::is_complex(entry_.dtype)) {
      make_float_texts();
    } else {
      make_integer_texts();
    }
    for (const std::string& text : texts_) column_ = std::max(column_, text.size());
  }

  void make_float_texts() {
    unsigned parts = detail::numbers_per_element(entry_.dtype);
    std::vector<double> values(bytes_.size() / width_ * parts);
    detail::to_numbers(entry_.dtype, bytes_, values);
    FloatStyle style = style_of(values, options_.precision);
    for (std::size_t i = 0; i < values.size(); i += parts) {
      std::string text = style.text(values[i]);
      if (parts == 2) {
        std::string imaginary = style.text(values[i + 1]);
        text += (imaginary[0] == '-' ? "" : "+") + imaginary + "j";
      }
      texts_.push_back(text);
    }
  }

  /// Read as integers, since a double does not hold all of 64 bits.
  void make_integer_texts() {
    for (std::size_t at = 0; at < bytes_.size(); at += width_) texts_.push_back(integer_text(&bytes_[at]));
  }
  std::string integer_text(const std::byte* from) const {
    switch (entry_.dtype) {
      case DType::boolean:
        return *from != std::byte{0} ? "True" : "False";
      case DType::i8:
      case DType::qint8:
        return std::to_string(core::load_le<std::int8_t>(from));
      case DType::i16:
        return std::to_string(core::load_le<std::int16_t>(from));
      case DType::i32:
      case DType::qint32:
        return std::to_string(core::load_le<std::int32_t>(from));
      case DType::i64:
        return std::to_string(core::load_le<std::int64_t>(from));
      case DType::u16:
      case DType::bits16:
        return std::to_string(core::load_le<std::uint16_t>(from));
      case DType::u32:
        return std::to_string(core::load_le<std::uint32_t>(from));
      case DType::u64:
        return std::to_string(core::load_le<std::uint64_t>(from));
      default:
        return std::to_string(core::load_le<std::uint8_t>(from));
    }
  }

  std::string next_text() {
    const std::string& text = texts_[used_++];
    return std::string(column_ - text.size(), ' ') + text;
  }

  /// The values below one index, brackets included. Depth: the rank of the tensor, which formats bound.
  std::string body(std::size_t dim, std::size_t indent) {
    if (dim == shape_.size()) return texts_[used_++];
    if (dim + 1 == shape_.size()) return row(indent);
    std::string separator = "," + std::string(shape_.size() - dim - 1, '\n') + std::string(indent + 1, ' ');
    std::string out = "[";
    bool first = true;
    for (std::int64_t index : shown(dim)) {
      out += first ? "" : separator;
      out += index < 0 ? "..." : body(dim + 1, indent + 1);
      first = false;
    }
    return out + "]";
  }

  std::string row(std::size_t indent) {
    std::size_t room = options_.width > indent + 1 ? options_.width - indent - 1 : 1;
    std::size_t a_line = std::max<std::size_t>(1, room / (column_ + 2));
    std::string out = "[";
    std::size_t placed = 0;
    for (std::int64_t index : shown(shape_.size() - 1)) {
      bool breaks = placed > 0 && placed % a_line == 0;
      if (placed > 0) out += breaks ? ",\n" + std::string(indent + 1, ' ') : ", ";
      out += index < 0 ? " ..." : next_text();
      ++placed;
    }
    return out + "]";
  }

  const Entry& entry_;
  const TensorTextOptions& options_;
  bool raw_;
  std::uint64_t width_;
  core::Shape shape_;
  bool summary_;
  core::ByteVector bytes_;
  std::vector<std::string> texts_;
  std::size_t column_ = 0;
  std::size_t used_ = 0;
};

}  // namespace

std::string tensor_text(const Entry& entry, const TensorTextOptions& options) {
  if (entry.bytes == nullptr) {
    std::string shape = core::to_list(entry.shape);
    return "tensor(..., device='meta', size=(" + shape.substr(1, shape.size() - 2) + "))";
  }
  EntryPtr values = entry.blocks ? detail::unpacked(entry) : nullptr;
  return Printer(values == nullptr ? entry : *values, options).run();
}

}  // namespace ckpt
