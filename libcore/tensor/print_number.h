#pragma once
// One element as text: how all elements of a tensor are written is decided once, from the values that will be shown.
// Thread safety: plain values. Use: Elements shown(dtype); shown.read(at); ElementFormat(std::move(shown), options);

#include <cstddef>
#include <string>
#include <vector>

#include "libcore/base/dtype.h"
#include "libcore/tensor/print.h"

namespace core::detail {

/// Elements read from memory, in the order in which they are shown. Which of the lists are filled follows from the
/// dtype.
struct Elements {
  DType dtype;
  std::vector<double> real;
  std::vector<double> imaginary;
  std::vector<std::string> texts;  ///< integers and bool, written out

  explicit Elements(DType type) : dtype(type) {}
  void reserve(std::size_t count);
  /// REQUIRES: `at` points to an element of a dtype of whole bytes.
  void read(const std::byte* at);
};

/// Floating numbers: `1.`, `1.0000` or `1.0000e+00`, all of one width.
class NumberFormat {
 public:
  NumberFormat() = default;
  NumberFormat(const std::vector<double>& shown, const PrintOptions& options);
  /// Behind `out`, with spaces in front as far as `width` asks for them.
  void append(std::string& out, double value, std::size_t width) const;
  std::size_t width() const { return width_; }

 private:
  /// Characters of the value alone.
  std::size_t size_of(double value) const;
  std::size_t widest(const std::vector<double>& shown) const;

  int precision_ = 4;
  bool integers_ = true;
  bool scientific_ = false;
  std::size_t width_ = 1;
};

/// Elements of any dtype.
class ElementFormat {
 public:
  ElementFormat(Elements shown, const PrintOptions& options);
  /// The text of the element shown `place`-th.
  void append(std::string& out, std::size_t place) const;
  /// Columns an element takes, without the separator.
  std::size_t width() const;

 private:
  Elements shown_;
  NumberFormat real_;
  NumberFormat imaginary_;
  std::size_t text_width_ = 1;
};

}  // namespace core::detail
