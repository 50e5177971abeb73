#pragma once
// Files of a checkpoint folder, opened by a name that a file of the folder gave: the shards of an index, the data of a
// distributed checkpoint. Whoever made the folder chose the name and what lies there, so a symbolic link must not be a
// way to a file elsewhere. Thread safety: any thread. Use: SourcePtr shard = open_in_folder(folder, name,
// Links::inside, "the index");

#include <filesystem>
#include <string>

#include "libckpt/io/byte_source.h"

namespace ckpt::detail {

/// Where a symbolic link may lead.
enum class Links : std::uint8_t {
  inside,    ///< to a file of the folder; in a hub's cache (snapshots/REVISION beside blobs) to one of that cache's
  anywhere,  ///< the caller has asked for it
};

/// Opens the regular file `name` below `folder`. Errors: Error(refused) for a link that leads out of it; Error(corrupt)
/// "it is missing, although `named_by` names it"; Error(io).
SourcePtr open_in_folder(const std::filesystem::path& folder, const std::string& name, Links links,
                         const std::string& named_by);

}  // namespace ckpt::detail
