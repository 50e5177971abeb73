#pragma once
// Tensors in quantised blocks as the f32 values that they stand for, unpacked while they are read, and values packed
// into blocks. Nothing holds a tensor. Thread safety: pure; the sources may be read from many threads.
// Use: EntryPtr values = detail::unpacked(*entry);

#include <string>

#include "libckpt/blocks/block_codec.h"
#include "libckpt/entry.h"

namespace ckpt::detail {

/// The values of an entry with blocks as an f32 entry of their shape. Null where the type cannot be unpacked. Large
/// reads are shared by `threads` (0: one per core), so one is best for who reads many tensors at a time.
/// REQUIRES: entry.blocks.
EntryPtr unpacked(const Entry& entry, unsigned threads = 1);

/// The entry itself; of one with blocks its values, where they can be unpacked.
EntryPtr with_values(EntryPtr entry);

/// f32 values packed into blocks. REQUIRES: codec.pack; the entry is f32 without blocks, and its last dimension a
/// multiple of codec.elements. A read throws Error(refused), which has `name`, for a value that is not finite.
/// Large reads are shared by `threads` (0: one per core).
EntryPtr packed(const Entry& entry, const BlockCodec& codec, const std::string& name, unsigned threads);

}  // namespace ckpt::detail
