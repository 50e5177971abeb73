#pragma once
// How a distributed checkpoint is spread over its files: the pieces of every tensor, and the parts that ranks wrote.
// Thread safety: plain values. Use: if (std::optional<ckpt::Spread> spread = ckpt::spread_of(checkpoint)) ...

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "libckpt/checkpoint.h"

namespace ckpt {

struct SpreadPiece {
  core::Shape offsets;
  core::Shape sizes;
  std::string file;          ///< "" for a piece without elements that was not written
  std::uint64_t offset = 0;  ///< in the file, of its archive
  std::uint64_t length = 0;
};

struct SpreadPart {
  std::string file;
  std::uint64_t bytes = 0;  ///< of the pieces and objects in it, as stored
};

struct Spread {
  std::vector<SpreadPart> parts;  ///< by name
  std::uint64_t ranks = 0;        ///< that wrote it; 0 where nothing says how many
  std::uint64_t tensors_in_pieces = 0;
  std::uint64_t pieces = 0;             ///< of those
  std::uint64_t whole = 0;              ///< tensors in one piece: of one rank, or alike on several and written once
  std::uint64_t replicated_pieces = 0;  ///< that several ranks had alike, and one has written
  std::uint64_t bytes_saved = 0;        ///< that these need not be written again
  std::unordered_map<const ByteSource*, std::vector<SpreadPiece>> of_tensors;

  /// Bytes of the largest part over the mean; 1 is even.
  double imbalance() const;
  /// None for a tensor that is not of it.
  const std::vector<SpreadPiece>& of(const Entry& entry) const;
};

/// nullopt for a checkpoint that is not one of several ranks.
std::optional<Spread> spread_of(const Checkpoint& checkpoint);

}  // namespace ckpt
