#pragma once
// A tensor whose bytes lie in several boxes, each a source of its own, read as one row-major whole. A read touches only
// the boxes and the parts of them that it needs, through a buffer of at most 4 MiB. Thread safety: as every source.
// Use: SourcePtr bytes = assemble_chunks(shape, width, std::move(chunks));

#include <cstdint>
#include <functional>
#include <vector>

#include "libckpt/format/dcp/tiling.h"
#include "libckpt/io/byte_source.h"
#include "libcore/base/dtype.h"

namespace ckpt::detail {

struct SourceChunk {
  Box box;
  SourcePtr bytes;  ///< row-major, all of the box
};

/// `width` is the size of an element in bytes. REQUIRES: the boxes pass check_tiling(); each source has the bytes of
/// its box. One chunk that is the whole tensor is returned as it is.
SourcePtr assemble_chunks(const core::Shape& shape, std::uint64_t width, std::vector<SourceChunk> chunks);

/// The same where the boxes are asked for when the first byte is. REQUIRES: as assemble_chunks() of what `make` gives.
SourcePtr assemble_when_read(const core::Shape& shape, std::uint64_t width,
                             std::function<std::vector<SourceChunk>()> make);

/// What becomes of the checksum of a chunk of which a part is read: to compare it, all of the chunk has to be read.
enum class PartCheck : std::uint8_t {
  kept,      ///< for whoever writes the values again
  left_out,  ///< where the chunk lies in a file as it is, and nobody asked for its checksum before its bytes
};

/// What lies in `box` of the tensor with these bytes, row-major. Of a tensor in chunks those alone are read that have
/// some of it, and of them what lies in it. REQUIRES: the box lies inside; elements of whole bytes.
SourcePtr read_box(const SourcePtr& bytes, core::DType dtype, const core::Shape& shape, const Box& box,
                   PartCheck check);

}  // namespace ckpt::detail
