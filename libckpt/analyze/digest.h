#pragma once
// digest: one name for what a model is: the same for the same tensors under the same names, whatever the format, the
// order, the sharding, the compression, the device tags and the metadata. Only tensors count, and of each only its
// name, dtype, shape and logical values: ties, views and torch.nn.Parameter make no difference, a lazy conjugate or
// negation is resolved.
//
// The construction, byte for byte (version 1). H is XXH3 with 128 bits and seed 0; a digest is written as 16 bytes,
// most significant first, which is the order of its hexadecimal text. Integers are little-endian.
//   content(t)  = H(the logical values: contiguous, row-major, little-endian)
//   tensor(t)   = H("ckpt digest 1 tensor\n" + dtype as core::name() says ("bfloat16"; of packed blocks their own
//                 name, "Q4_0", and the shape of the values) + 0x00 + u64 rank + u64 of each
//                 size + one byte: 1 when the values are there, 0 for a tensor on "meta" + content(t) or 16 zero bytes)
//   The dotted name of every tensor ("model.fc.weight") is split at its dots; the components make a tree. A branch is
//   branch(b)   = H("ckpt digest 1 branch\n" + for each child: u64 bytes of its component + the component + one byte: 0
//                 for a tensor, 1 for a branch + its digest), children ordered by component (as unsigned bytes), then
//                 by that byte, then by digest. A component may have both a tensor and a branch.
// The model's digest is that of the root branch. A branch does not know its own name, so "encoder" of one file can be
// compared with "module.encoder" of another. XXH3 is no cryptographic hash: equal digests mean equal models unless
// someone made it so.
// Thread safety: pure. Use: std::string name = ckpt::to_hex(ckpt::digest(checkpoint.root).model);

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/io/checksum.h"
#include "libckpt/report.h"

namespace ckpt {

struct DigestOptions {
  std::size_t depth = 0;  ///< branches down to this many components get their own digest
  unsigned threads = 0;
  Progress progress = {};  ///< bytes
  /// content(t) of tensors where it is known, which are then not read; may be none.
  std::function<std::optional<Hash128>(const Entry&)> known = {};
};

struct DigestResult {
  struct Tensor {
    std::string name;
    EntryPtr entry;
    Hash128 content;
    Hash128 digest;
  };
  struct Branch {
    std::string name;           ///< dotted
    std::uint64_t tensors = 0;  ///< at and below it
    std::uint64_t bytes = 0;
    Hash128 digest;
  };
  Hash128 model;
  std::uint64_t bytes = 0;
  std::vector<Tensor> tensors;   ///< in file order
  std::vector<Branch> branches;  ///< ordered by component
};

/// Errors: those of reading, with the key as context.
DigestResult digest(const Value& root, const DigestOptions& options = {});
/// The same for some of the tensors.
DigestResult digest(const std::vector<NamedEntry>& entries, const DigestOptions& options = {});

}  // namespace ckpt
