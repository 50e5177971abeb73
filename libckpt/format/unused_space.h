#pragma once
// Bytes of an HDF5 or native file that belong to nothing in it: HDF5 leaves the place of deleted and moved objects
// behind. Thread safety: any thread. Use: if (std::uint64_t bytes = unused_space(checkpoint)) ...

#include <cstdint>

#include "libckpt/checkpoint.h"

namespace ckpt {

/// What saving the checkpoint afresh in its format frees; 0 where the format does not say, where the new file would be
/// larger for want of compression, and where it cannot be counted: texts of any length lie in places of their own.
/// Cost: reads all metadata of the file, no tensor. Errors: those of opening the file.
std::uint64_t unused_space(const Checkpoint& checkpoint);

namespace detail {
/// `unused` of a file of this size; 0 where it is little: 16 KiB, or a sixteenth of the file, which alignment may take.
std::uint64_t beyond_alignment(std::uint64_t unused, std::uint64_t file_bytes);
}  // namespace detail

}  // namespace ckpt
