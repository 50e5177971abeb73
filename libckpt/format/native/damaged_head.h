#pragma once
// Recognises a native file whose first bytes decayed, so that it never passes for an HDF5 file of somebody else.
// Thread safety: pure functions. Use: if (find_head_damage(input) != HeadDamage::none) ...

#include <cstdint>
#include <optional>
#include <string>

#include "libckpt/format/format.h"

namespace ckpt::detail {

enum class HeadDamage : std::uint8_t {
  none,    ///< the magic is there, or this is no native file
  magic,   ///< with the magic in place the header fits its checksum
  header,  ///< magic and header are damaged; the index behind them is there
  parity,  ///< the head is gone; the parity data at the end of the file says whose file this is
};

/// Looks at the header, at the index behind it and at the end of the file. Must not throw on any bytes. Cost: two or
/// three short reads.
HeadDamage find_head_damage(const Input& input);

/// The sentence that every command says of such a file. REQUIRES: not none.
std::string describe(HeadDamage damage);

/// Where the HDF5 part begins: the first power of two from 4,096 on that has HDF5's signature.
std::optional<std::uint64_t> find_hdf5_part(const ByteSource& file);

/// Bytes of the index, by walking the heads of its required sections; nullopt when they do not stand one behind the
/// other up to `user_block`.
std::optional<std::uint64_t> measure_index(const ByteSource& file, std::uint64_t user_block);

}  // namespace ckpt::detail
