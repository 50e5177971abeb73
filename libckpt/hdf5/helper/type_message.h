#pragma once
// Types as their messages describe them, checked in themselves: sizes, bits, members and bases must fit each other.
// libhdf5 believes most of it. Thread safety: pure. Use: TypeClaim type = check_type_message(in, widths);

#include "libckpt/hdf5/helper/object_header.h"

namespace ckpt::detail {

/// Dimensions of an array or a dataset (H5S_MAX_RANK). HDF5 File Format Specification, IV.A.2.
inline constexpr std::uint64_t kMaxRank = 32;

struct TypeClaim {
  std::uint64_t width = 0;  ///< bytes of an element in the file
  std::uint8_t kind = 0;
  bool any_length_text = false;
  bool points_elsewhere = false;  ///< it or a part of it lies in collections elsewhere in the file
};

/// Throws Failure(corrupt) for a type that contradicts itself, Error(corrupt) for a message that is cut.
TypeClaim check_type_message(ByteCursor& in, const Hdf5Widths& widths);

}  // namespace ckpt::detail
