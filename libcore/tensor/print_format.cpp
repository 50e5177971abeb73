#include "libcore/tensor/print_format.h"

#include <algorithm>
#include <sstream>

#include "libcore/tensor/print_number.h"

namespace core::detail {
namespace {

bool is_printable(DType dtype) {
  bool is_byte_float = is_floating(dtype) && bit_width(dtype) >= 8 && dtype != DType::f4_e2m1fn_x2;
  return is_byte_float || is_complex(dtype) || is_integer(dtype) || dtype == DType::boolean;
}

/// Walks the elements that are shown and joins their texts.
class ArrayPrinter {
 public:
  ArrayPrinter(const ArrayView& array, const PrintOptions& options)
      : array_(array),
        options_(options),
        summarised_(array.sizes.numel() > options.threshold),
        format_(array.dtype, shown(), options) {}

  std::string text(std::size_t indent) const {
    if (array_.sizes.empty()) return format_.text(element(0));
    return dimension(0, 0, indent);
  }

 private:
  Element element(std::int64_t offset) const {
    return read_element(array_.dtype, array_.data + offset * (bit_width(array_.dtype) / 8));
  }

  bool is_cut(std::size_t dim) const { return summarised_ && array_.sizes[dim] > 2 * options_.edgeitems; }

  /// Indices shown along a dimension.
  std::vector<std::int64_t> indices(std::size_t dim) const {
    std::vector<std::int64_t> result;
    std::int64_t size = array_.sizes[dim];
    if (!is_cut(dim)) result.reserve(static_cast<std::size_t>(size));
    for (std::int64_t i = 0; i < size; ++i) {
      if (is_cut(dim) && i == options_.edgeitems) i = size - options_.edgeitems;
      if (i < size) result.push_back(i);
    }
    return result;
  }

  std::vector<Element> shown() const {
    std::vector<Element> elements;
    if (!summarised_) elements.reserve(static_cast<std::size_t>(array_.sizes.numel()));
    collect(0, 0, elements);
    return elements;
  }

  void collect(std::size_t dim, std::int64_t offset, std::vector<Element>& elements) const {
    if (dim == array_.sizes.size()) {
      elements.push_back(element(offset));
      return;
    }
    if (is_cut(dim) && options_.edgeitems == 0) return;
    for (std::int64_t i : indices(dim)) collect(dim + 1, offset + i * array_.strides[dim], elements);
  }

  std::string dimension(std::size_t dim, std::int64_t offset, std::size_t indent) const {
    std::size_t below = array_.sizes.size() - dim - 1;
    if (below == 0) return line(offset, indent);
    std::string separator = "," + std::string(below, '\n') + std::string(indent + 1, ' ');
    std::vector<std::string> parts;
    for (std::int64_t i : indices(dim)) {
      parts.push_back(dimension(dim + 1, offset + i * array_.strides[dim], indent + 1));
    }
    if (is_cut(dim)) parts.insert(parts.begin() + options_.edgeitems, "...");
    return bracketed(parts, separator);
  }

  /// The last dimension, broken into lines.
  std::string line(std::int64_t offset, std::size_t indent) const {
    std::size_t dim = array_.sizes.size() - 1;
    if (summarised_ && options_.edgeitems == 0) return "[...]";
    auto room = static_cast<std::int64_t>(options_.linewidth) - static_cast<std::int64_t>(indent);
    std::int64_t a_line = std::max<std::int64_t>(1, room / static_cast<std::int64_t>(format_.width() + 2));
    const std::string new_line = ",\n" + std::string(indent + 1, ' ');
    std::string text = "[";
    std::int64_t count = 0;
    const auto append = [&](const std::string& item) {
      if (count != 0) text += count % a_line != 0 ? ", " : new_line;
      text += item;
      ++count;
    };
    const std::vector<std::int64_t> places = indices(dim);
    text.reserve(places.size() * (format_.width() + 2) + 8);
    for (std::int64_t i : places) {
      if (count == options_.edgeitems && is_cut(dim)) append(" ...");
      append(format_.text(element(offset + i * array_.strides[dim])));
    }
    return text + "]";
  }

  static std::string bracketed(const std::vector<std::string>& parts, const std::string& separator) {
    std::string text = "[";
    for (std::size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : separator) + parts[i];
    return text + "]";
  }

  const ArrayView& array_;
  const PrintOptions& options_;
  bool summarised_;
  ElementFormat format_;
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

std::string format_values(const ArrayView& array, std::size_t indent, const PrintOptions& options) {
  if (array.data == nullptr || !is_printable(array.dtype)) return "...";
  if (array.sizes.numel() == 0) return "[]";
  return ArrayPrinter(array, options).text(indent);
}

std::string format_tensor(const ArrayView& array, const Suffixes& suffixes, const PrintOptions& options) {
  static const std::string kPrefix = "tensor(";
  std::string text = kPrefix + format_values(array, kPrefix.size(), options);
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
  return text + ")";
}

}  // namespace core::detail
