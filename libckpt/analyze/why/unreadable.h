#pragma once
// Diagnosis of a file that no reader takes: from its first bytes, its size and the reader's own words.
// Thread safety: pure. Use: diagnose_unreadable(diagnosis, path, error);

#include <filesystem>

#include "libckpt/analyze/why.h"
#include "libcore/base/error.h"

namespace ckpt::detail {

/// Adds the one cause. Errors: Error(io) when the file cannot be read at all.
void diagnose_unreadable(Diagnosis& diagnosis, const std::filesystem::path& path, const core::Error& error);

}  // namespace ckpt::detail
