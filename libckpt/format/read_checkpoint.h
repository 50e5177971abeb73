#pragma once
// Reading a file of any format, also one that is no checkpoint to load, such as a delta. Internal: callers of the
// library use open() or open_delta(). Thread safety: pure. Use: Checkpoint delta = read_checkpoint(path, options);

#include <filesystem>

#include "libckpt/checkpoint.h"
#include "libckpt/options.h"

namespace ckpt::detail {

struct TensorRow;

/// With `row` as open_row() says. Errors: as open().
Checkpoint read_checkpoint(const std::filesystem::path& path, const OpenOptions& options, TensorRow* row = nullptr);

}  // namespace ckpt::detail
