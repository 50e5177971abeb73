#pragma once
// One element as text: how all elements of a tensor are written is decided once, from the values that will be shown.
// Thread safety: plain values. Use: NumberFormat format(values, options); format.text(values[0]);

#include <cstddef>
#include <string>
#include <vector>

#include "libcore/base/dtype.h"
#include "libcore/tensor/print.h"

namespace core::detail {

/// An element read from memory. Which member counts follows from the dtype.
struct Element {
  double real = 0;
  double imaginary = 0;
  std::string text;  ///< integers and bool, written out
};

/// REQUIRES: `at` points to an element of a dtype of whole bytes.
Element read_element(DType dtype, const std::byte* at);

/// Floating numbers: `1.`, `1.0000` or `1.0000e+00`, all of one width.
class NumberFormat {
 public:
  NumberFormat() = default;
  NumberFormat(const std::vector<double>& shown, const PrintOptions& options);
  std::string text(double value) const;
  std::size_t width() const { return width_; }

 private:
  std::string bare(double value) const;
  /// bare(value).size()
  std::size_t bare_size(double value) const;

  int precision_ = 4;
  bool integers_ = true;
  bool scientific_ = false;
  std::size_t width_ = 1;
};

/// Elements of any dtype.
class ElementFormat {
 public:
  ElementFormat(DType dtype, const std::vector<Element>& shown, const PrintOptions& options);
  std::string text(const Element& element) const;
  /// Columns an element takes, without the separator.
  std::size_t width() const;

 private:
  DType dtype_;
  NumberFormat real_;
  NumberFormat imaginary_;
  std::size_t text_width_ = 1;
};

}  // namespace core::detail
