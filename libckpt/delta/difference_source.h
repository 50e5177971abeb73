#pragma once
// What leads from one run of bytes to another, and that added to the first, computed while it is read. Internal.
// Thread safety: may be read from many threads. Use: SourcePtr change = difference_source(before, after, 2,
// "base.pth"); after = sum_source(before, change, {.width = 2}, "base.pth");

#include <string>

#include "libckpt/delta/passing_hash.h"
#include "libckpt/delta/target_check.h"
#include "libckpt/io/byte_source.h"

namespace ckpt::detail {

/// How a difference is added. All bytes are words of one width (io/word_planes.h).
struct Adding {
  std::uint32_t width = 1;
  bool bits = false;       ///< the difference is the exclusive or, of any width
  std::uint64_t part = 0;  ///< not 0: words are foretold (foretold_source.h), in parts of so many bytes
  std::string name = "";   ///< of the tensor, the context of errors in unpacking the difference
};

/// The differences of words of `width` that lead from `from` to `to`. `file`: where `from` lies, the context of errors
/// in reading it; "" for memory. `passing`: of what a save reads of both. REQUIRES, here and below: both are equally
/// large, whole words.
SourcePtr difference_source(SourcePtr from, SourcePtr to, std::uint32_t width, std::string file,
                            PassingHashes passing = {});
/// `difference` added to `to`, which lies in `file`. `check`, where there is one, sees what is read.
SourcePtr sum_source(SourcePtr to, SourcePtr difference, Adding how, std::string file,
                     std::shared_ptr<TargetCheck> check = nullptr);

}  // namespace ckpt::detail
