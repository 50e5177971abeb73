#pragma once
// deep_verify: verify(), and what a reader of the file would meet beyond its checksums: the disk instead of what the
// system keeps in memory, every tensor as a load gives it, and values that no training goes on from. Thread safety: any
// number of calls at once. Errors: those of verify(). Use:
// ckpt::VerifyResult result = ckpt::deep_verify("net.ckpt"); if (!result.damage.empty()) ...

#include <filesystem>

#include "libckpt/options.h"

namespace ckpt {

/// As verify(), from the disk: pages of the file that lie in memory are dropped before (of a set of files, those of its
/// folder). Then each tensor is read as loading reads it, through its view and its packing: one that cannot be is
/// damage. Tensors with NaN or infinite values are notes.
VerifyResult deep_verify(const std::filesystem::path& path, const OpenOptions& options = {},
                         const Progress& progress = {});

}  // namespace ckpt
