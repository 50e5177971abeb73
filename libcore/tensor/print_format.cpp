#include "libcore/tensor/print_format.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "libcore/tensor/print_number.h"

namespace core::detail {
namespace {

bool is_printable(DType dtype) {
  bool is_byte_float = is_floating(dtype) && bit_width(dtype) >= 8 && dtype != DType::f4_e2m1fn_x2;
  return is_byte_float || is_complex(dtype) || is_integer(dtype) || dtype == DType::boolean;
}

/// Walks the elements that are shown, once to read them and once to write them.
class ArrayPrinter {
 public:
  ArrayPrinter(const ArrayView& array, const PrintOptions& options)
      : array_(array),
        options_(options),
        element_bytes_(bit_width(array.dtype) / 8),
        summarised_(array.sizes.numel() > options.threshold),
        format_(shown(), options) {}

  void append(std::string& text, std::size_t indent) {
    if (array_.sizes.empty()) return format_.append(text, 0);
    if (!summarised_) {
      text.reserve(text.size() + static_cast<std::size_t>(array_.sizes.numel()) * (format_.width() + 3) + 64);
    }
    dimension(text, 0, indent);
  }

 private:
  bool is_cut(std::size_t dim) const { return summarised_ && array_.sizes[dim] > 2 * options_.edgeitems; }

  /// shown(i) for the indices shown along a dimension, and gap() where some are left out.
  template <class Shown, class Gap>
  void each(std::size_t dim, const Shown& shown, const Gap& gap) const {
    const std::int64_t size = array_.sizes[dim], edge = is_cut(dim) ? options_.edgeitems : size;
    for (std::int64_t i = 0; i < edge; ++i) shown(i);
    if (edge == size) return;
    gap();
    for (std::int64_t i = size - edge; i < size; ++i) shown(i);
  }

  Elements shown() const {
    Elements elements(array_.dtype);
    if (!summarised_) elements.reserve(static_cast<std::size_t>(array_.sizes.numel()));
    collect(0, array_.data, elements);
    return elements;
  }

  void collect(std::size_t dim, const std::byte* at, Elements& elements) const {
    if (dim == array_.sizes.size()) return elements.read(at);
    const std::int64_t step = array_.strides[dim] * element_bytes_;
    each(
        dim, [&](std::int64_t i) { collect(dim + 1, at + i * step, elements); }, [] {});
  }

  void dimension(std::string& text, std::size_t dim, std::size_t indent) {
    const std::size_t below = array_.sizes.size() - dim - 1;
    if (below == 0) return line(text, indent);
    const std::string separator = "," + std::string(below, '\n') + std::string(indent + 1, ' ');
    bool first = true;
    const auto separate = [&] {
      if (!std::exchange(first, false)) text += separator;
    };
    text += '[';
    each(
        dim,
        [&](std::int64_t) {
          separate();
          dimension(text, dim + 1, indent + 1);
        },
        [&] {
          separate();
          text += "...";
        });
    text += ']';
  }

  /// The last dimension, broken into lines.
  void line(std::string& text, std::size_t indent) {
    if (summarised_ && options_.edgeitems == 0) {
      text += "[...]";
      return;
    }
    auto room = static_cast<std::int64_t>(options_.linewidth) - static_cast<std::int64_t>(indent);
    const std::int64_t a_line = std::max<std::int64_t>(1, room / static_cast<std::int64_t>(format_.width() + 2));
    const std::string new_line = ",\n" + std::string(indent + 1, ' ');
    std::int64_t left = a_line + 1;  // in this line; the first item has no separator
    const auto separate = [&] {
      if (--left == a_line) return;
      if (left > 0) {
        text += ", ";
      } else {
        text += new_line;
        left = a_line;
      }
    };
    text += '[';
    each(
        array_.sizes.size() - 1,
        [&](std::int64_t) {
          separate();
          format_.append(text, next_++);
        },
        [&] {
          separate();
          text += " ...";
        });
    text += ']';
  }

  const ArrayView& array_;
  const PrintOptions& options_;
  std::int64_t element_bytes_;
  bool summarised_;
  ElementFormat format_;
  std::size_t next_ = 0;  // to be written
};

/// "(2, 0)", "(5,)", "()".
std::string tuple(const Shape& sizes) {
  std::string text = to_list(sizes);
  text.front() = '(';
  text.back() = ')';
  if (sizes.size() == 1) text.insert(text.size() - 1, ",");
  return text;
}

std::vector<std::string> suffix_texts(const ArrayView& array, const Suffixes& suffixes, const PrintOptions& options) {
  std::vector<std::string> texts;
  bool is_empty = array.sizes.numel() == 0;
  bool show_size = array.data == nullptr || (is_empty ? array.sizes.size() != 1 : options.edgeitems == 0);
  if (!suffixes.device.empty()) texts.push_back("device='" + suffixes.device + "'");
  if (show_size) texts.push_back("size=" + tuple(array.sizes));
  if (suffixes.show_dtype) texts.push_back("dtype=torch." + std::string(name(array.dtype)));
  if (!suffixes.grad_fn.empty()) {
    texts.push_back("grad_fn=<" + suffixes.grad_fn + ">");
  } else if (suffixes.requires_grad) {
    texts.push_back("requires_grad=True");
  }
  return texts;
}

}  // namespace

namespace {

void append_values(std::string& text, const ArrayView& array, std::size_t indent, const PrintOptions& options) {
  if (array.data == nullptr || !is_printable(array.dtype)) {
    text += "...";
  } else if (array.sizes.numel() == 0) {
    text += "[]";
  } else {
    ArrayPrinter(array, options).append(text, indent);
  }
}

}  // namespace

std::string format_values(const ArrayView& array, std::size_t indent, const PrintOptions& options) {
  std::string text;
  append_values(text, array, indent, options);
  return text;
}

std::string format_tensor(const ArrayView& array, const Suffixes& suffixes, const PrintOptions& options) {
  static const std::string kPrefix = "tensor(";
  std::string text = kPrefix;
  append_values(text, array, kPrefix.size(), options);
  std::size_t last_break = text.rfind('\n');
  // Where the next suffix may still start, counted as PyTorch counts: two characters in front for ", ".
  std::size_t column = last_break == std::string::npos ? text.size() + 2 : text.size() - last_break + 1;
  for (const std::string& suffix : suffix_texts(array, suffixes, options)) {
    if (column + suffix.size() + 2 > static_cast<std::size_t>(options.linewidth)) {
      text += ",\n" + std::string(kPrefix.size(), ' ') + suffix;
      column = kPrefix.size() + suffix.size();
    } else {
      text += ", " + suffix;
      column += suffix.size() + 2;
    }
  }
  text += ')';
  return text;
}

}  // namespace core::detail
