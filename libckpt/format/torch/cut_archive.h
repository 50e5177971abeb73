#pragma once
// What is left of an archive of torch.save that lost its directory, mostly because the file was cut: its records are
// found by their own headers, and data.pkl, which comes first, says which tensors there were and how large each is.
// Thread safety: pure. Use: if (std::optional<HintedError> error = cut_archive_error(file, limits)) throw *error;

#include <optional>

#include "libckpt/hint.h"
#include "libckpt/io/byte_source.h"
#include "libckpt/limits.h"
#include "libckpt/value.h"

namespace ckpt {

struct CutArchive {
  Value root;                 ///< the object; tensors whose records are not there throw when they are read
  std::uint64_t tensors = 0;  ///< in it
  std::uint64_t whole = 0;    ///< of these: their records are there to the end, with their checksums
  std::uint64_t written = 0;  ///< size of the whole file, when PyTorch laid it out as it does today
};

/// nullopt for a file that does not begin with a record of such an archive. Errors: Error(corrupt) when data.pkl is cut
/// or missing; those of read_pickle() and to_value(). Cost: the headers of the records, not their bytes, as long as
/// they are those that data.pkl speaks of.
std::optional<CutArchive> read_cut_archive(const SourcePtr& file, const Limits& limits);

/// Error(corrupt) that says of such a file where it ends, and how many tensors are whole. None for a file that has its
/// directory, or of which nothing more can be said.
std::optional<HintedError> cut_archive_error(const SourcePtr& file, const Limits& limits);

}  // namespace ckpt
