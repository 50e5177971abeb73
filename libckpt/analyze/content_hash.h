#pragma once
// Content hashes of many tensors at once: each source is read once, by several threads. Internal.
// Thread safety: pure. Use: std::vector<Hash128> hashes = content_hashes(entries, {.threads = 4});

#include <functional>
#include <optional>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/io/checksum.h"
#include "libckpt/report.h"

namespace ckpt::detail {

struct ContentHashOptions {
  unsigned threads = 0;
  Progress progress = {};
  /// Where the hash of a tensor that is no lazy one is known, it is not read; may be none.
  std::function<std::optional<Hash128>(const Entry&)> known = {};
};

/// XXH3-128 of the logical values (lazy conjugation and negation resolved), zero for a tensor without bytes.
std::vector<Hash128> content_hashes(const std::vector<NamedEntry>& entries, const ContentHashOptions& options);

/// One of them.
Hash128 content_hash(const Entry& entry);

}  // namespace ckpt::detail
