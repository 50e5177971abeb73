#pragma once
// What leads from one tensor of bfloat16 to a later one of the same shape where words are foretold
// (io/predicted_words.h): bytes of the size of the tensor, part after part of it packed for itself, with zeros behind
// what is packed. A part that packs to more than it holds is kept as differences of words. Internal. Thread safety: may
// be read from many threads. Errors: those of reading. Use: SourcePtr change = foretold_source(before, after, {part,
// columns}, "base.pth");

#include <optional>
#include <string>

#include "libckpt/delta/passing_hash.h"
#include "libckpt/io/byte_source.h"
#include "libckpt/io/predicted_words.h"
#include "libcore/base/shape.h"

namespace ckpt::detail {

/// How a tensor is cut.
struct ForetoldParts {
  std::uint64_t bytes = 0;    ///< of a part, whole rows; 0: words of such a tensor are not foretold
  std::uint64_t columns = 0;  ///< words of a row: of all dimensions but the first
};
ForetoldParts foretold_parts(const core::Shape& shape);

/// Whether that is worth it, by a sample of both.
bool foretelling_pays(const ByteSource& from, const ByteSource& to);

/// `file`: where `from` lies, the context of errors in reading it; "" for memory. `passing`: of what a save reads of
/// both. REQUIRES: both are equally large.
SourcePtr foretold_source(SourcePtr from, SourcePtr to, const ForetoldParts& parts, std::string file,
                          PassingHashes passing = {});

/// Those of the part in which byte `offset` is; nothing where that part has differences of words. `change` is used as
/// long.
std::optional<PredictedWords> find_foretold(const ByteSource& change, std::uint64_t part, std::uint64_t offset);

/// Turns words before into those after, in one part of `part` bytes. False, and nothing is done, where that part has
/// differences of words. REQUIRES: whole_blocks() of it is the same.
bool add_foretold(const ByteSource& change, std::uint64_t part, std::uint64_t offset, MutableBytes words);

/// The bytes from `offset` on, widened to what is unpacked together; those alone where `part` is 0.
struct BlockRange {
  std::uint64_t begin;
  std::uint64_t end;
};
BlockRange whole_blocks(std::uint64_t part, std::uint64_t offset, std::uint64_t size, std::uint64_t all);

}  // namespace ckpt::detail
