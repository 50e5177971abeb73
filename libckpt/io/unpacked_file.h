#pragma once
// A file that was packed as a whole with gzip, zstd or zlib, unpacked once into a file without a name in $TMPDIR (else
// /var/tmp, else /tmp): checkpoints are read all over the place, and neither form can be. The memory for it is the
// decoder's, at most 128 MiB (a zstd window), whatever the file says. Thread safety: any thread.
// Use: if (Packer packer = packer_of(header); packer != Packer::none) source = unpacked(*source, packer, limit);

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "libckpt/io/byte_source.h"

namespace ckpt::detail {

enum class Packer : std::uint8_t { none, gzip, zstd, zlib };

/// By the first bytes of a file.
Packer packer_of(Bytes head);
/// The same of a file that may be missing, which then is none. Never throws.
Packer packer_of_file(const std::filesystem::path& path);
/// The packer whose extension the name has: .gz, .zst or .zstd, in any letter case.
Packer packer_named(const std::filesystem::path& path);
/// "gzip", "zstd", "zlib".
std::string_view name(Packer packer);

/// All that was packed, checksums compared. REQUIRES: `packer` is not none. Errors: Error(corrupt) for data that are
/// damaged, cut off, or followed by something else; Error(refused) when they are more than `most` bytes;
/// Error(unsupported) for a zstd window of more than 128 MiB; Error(io) where the temporary file cannot be written.
SourcePtr unpacked(const ByteSource& packed, Packer packer, std::uint64_t most);

}  // namespace ckpt::detail
