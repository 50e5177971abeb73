#pragma once
// Where the tensors of this rank lie in the whole ones: a piece is a box of a tensor, told by the whole shape and where
// the box begins; its sizes are those of the tensor that the rank has. Tensors without a piece are whole on every rank.
// Thread safety: pure. Use: ckpt::dist::Pieces pieces{{"fc.weight", ckpt::dist::shard({30, 5}, 0, rank, ranks)}};

#include <map>
#include <string>

#include "libcore/base/shape.h"

namespace ckpt::dist {

struct Piece {
  core::Shape global_shape;
  core::Shape offset;
  core::Shape sizes = {};  ///< to be read; of a tensor that is saved, its own shape
};

/// By the dotted name that the tensor has in the checkpoint: "model.fc.weight".
using Pieces = std::map<std::string, Piece>;

/// What `rank` of `ranks` has of a tensor cut along `dim`, as torch.distributed's Shard(dim): pieces of ceil(n /
/// ranks), the last ones shorter or empty. Error(value) for a dimension that the shape does not have.
Piece shard(const core::Shape& global_shape, std::int64_t dim, int rank, int ranks);

}  // namespace ckpt::dist
