#pragma once
// One NumPy array as an entry: its values as rows of little-endian numbers, whatever order the file has them in.
// Thread safety: pure functions. Use: NpyArray array = array_behind(read_npy_header(*file, 64), file);

#include <cstdint>
#include <memory>

#include "libckpt/entry.h"
#include "libckpt/format/npz/npy_header.h"

namespace ckpt::detail {

struct NpyArray {
  std::shared_ptr<const Entry> entry;
  std::uint64_t trailing = 0;  ///< bytes behind the array; NumPy allows them
};

/// The array behind a header. Reads nothing. Error(corrupt) when the data are shorter than the shape says.
NpyArray array_behind(const NpyHeader& header, const SourcePtr& file);

/// The file that numpy.save writes for it. REQUIRES: npy_descr(entry.dtype) is not "", entry.bytes is not null.
SourcePtr make_npy(const Entry& entry);

}  // namespace ckpt::detail
