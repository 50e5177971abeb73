#pragma once
// The bytes before the signature of an HDF5 file, which HDF5 leaves to whoever wrote them and its readers skip. Any
// content is legal there; what makes other programs take the file for something else, or run it, is not. Thread safety:
// pure functions. Use: UserBlock block = find_user_block(file); if (!block.danger.empty()) ...

#include <string>

#include "libckpt/io/byte_source.h"

namespace ckpt::detail {

struct UserBlock {
  std::uint64_t size = 0;  ///< 0: the file begins with HDF5
  SourcePtr content;       ///< without the zeros at its end; null when there is nothing else
  std::string danger;      ///< what other programs would take it for: "a zip archive", "a script"; "" for none
};

/// HDF5 looks for its signature at 512 and its doubles when it is not at the beginning. 0: it is there, or nowhere.
std::uint64_t user_block_size(const ByteSource& file);

/// Cost: reads the user block.
UserBlock find_user_block(const SourcePtr& file);

/// "512 bytes of user block before the HDF5 data; they are not part of it", or what they hold where that is a danger.
std::string describe(const UserBlock& block);

/// True when the superblock behind the user block is one that the native format writes, and no HDF5 library.
bool has_native_superblock(const SourcePtr& file, const UserBlock& block);

/// Why programs that look for a zip archive at the end of the file find one; "" when they do not.
std::string zip_at_end(const ByteSource& file);

}  // namespace ckpt::detail
