#pragma once
// The header of a NumPy array: magic, version and a Python dict literal, which is read by a small scanner and never
// evaluated. Thread safety: pure functions. Use: NpyHeader h = read_npy_header(*file); data begin at h.data_offset.

#include <cstdint>
#include <string>
#include <string_view>

#include "libckpt/io/byte_source.h"
#include "libcore/base/dtype.h"
#include "libcore/base/shape.h"

namespace ckpt::detail {

inline constexpr std::string_view kNpyMagic = "\x93NUMPY";

struct NpyHeader {
  core::DType dtype = core::DType::f32;
  bool big_endian = false;
  bool fortran = false;  ///< the first dimension lies closest together
  core::Shape shape;
  std::uint64_t data_offset = 0;
};

/// Reads versions 1.0, 2.0 and 3.0. Errors: Error(corrupt) for anything that is no such header or is cut off;
/// Error(refused) for an object array, whose data are a Python pickle, and for a header longer than `max_header`;
/// Error(unsupported) for other versions and for elements that are no numbers (text, records, dates, long double).
NpyHeader read_npy_header(const ByteSource& file, std::uint64_t max_rank);

/// descr of a type, "" when NumPy has none for it. bits8 and bits16 are void types, as ml_dtypes writes them.
std::string npy_descr(core::DType dtype);
/// The header that numpy.save writes, spaces for growth included. REQUIRES: npy_descr(dtype) is not "".
std::string make_npy_header(core::DType dtype, const core::Shape& shape);

}  // namespace ckpt::detail
