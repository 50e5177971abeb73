#pragma once
// What numbers of a type can be, as torch.finfo and torch.iinfo: the same values and the same printed text.
// Thread safety: plain values. Use: if (x.max().item<double>() > core::finfo(core::float16).max) ...

#include <cstdint>
#include <iosfwd>
#include <string>

#include "libcore/base/dtype.h"

namespace core {

/// A floating type; a complex one counts as that of its parts. Without an argument the default type. Error(type)
/// "torch.finfo() requires a floating point input type. Use torch.iinfo to handle 'torch.finfo'".
struct finfo {
  finfo();
  explicit finfo(DType of);

  int bits;
  double eps;              ///< from 1 to the next number
  double min, max;         ///< -max and the largest number
  double smallest_normal;  ///< the smallest above 0 of full precision
  double tiny;             ///< the same
  double resolution;       ///< the power of ten of its decimal digits
  DType dtype;

  /// "finfo(resolution=0.001, min=-65504, max=65504, ..., dtype=float16)".
  std::string str() const;
};

/// An integer type. Errors(type): "torch.iinfo() requires an integer input type. ...", "torch.bool is not supported by
/// torch.iinfo".
struct iinfo {
  explicit iinfo(DType of);

  int bits;
  std::int64_t min;
  std::uint64_t max;
  DType dtype;

  /// "iinfo(min=-128, max=127, dtype=int8)".
  std::string str() const;
};

std::ostream& operator<<(std::ostream& out, const finfo& info);
std::ostream& operator<<(std::ostream& out, const iinfo& info);

}  // namespace core
