#pragma once
// The parts of scan() that verify() shares: the walk through a file and through the files that it stands for.
// Thread safety: one owner. Use: ScanResult result; detail::scan_contents(input, options, result);

#include <string>
#include <utility>
#include <vector>

#include "libckpt/format/format.h"
#include "libckpt/scan.h"

namespace ckpt::detail {

/// Walks through `input` and its shards or pieces. What the format itself can verify is not done here.
/// Errors: Error(io) alone.
void scan_contents(const Input& input, const OpenOptions& options, ScanResult& result);

/// Shards that an index names; empty for any other file.
std::vector<std::string> files_beside(const Input& input, const OpenOptions& options);
/// The folder that those names are from.
std::filesystem::path folder_of_files(const Input& input);
/// What the metadata of a distributed checkpoint names; empty for any other file.
std::vector<std::pair<std::string, SourcePtr>> pieces_beside(const Input& input, const OpenOptions& options);

}  // namespace ckpt::detail
