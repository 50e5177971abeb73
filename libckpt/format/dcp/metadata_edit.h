#pragma once
// Edits of a distributed checkpoint that change what its items are called and not what they are: the `.metadata` alone
// is written. Thread safety: pure. Use: if (std::optional<MetadataEdit> edit = plan_metadata_edit(checkpoint, folder))
// ...

#include <filesystem>
#include <optional>
#include <vector>

#include "libckpt/format/dcp/detail.h"
#include "libckpt/format/dcp/flatten.h"

namespace ckpt::detail {

struct MetadataEdit {
  DcpMetadata metadata;            ///< places of `fresh` are missing
  std::vector<std::size_t> fresh;  ///< items that lie nowhere yet: small objects, such as lists of names
  std::vector<FlatItem> flat;      ///< values of all items, in the order of the metadata
};

/// nullopt where `folder` is not what the checkpoint was read from, or a tensor is not one of its tensors as it was.
std::optional<MetadataEdit> plan_metadata_edit(const Checkpoint& checkpoint, const std::filesystem::path& folder);
/// Replaces `.metadata` in one step, and keeps what undo_edit() takes that back from. Objects that are new go into a
/// data file of their own before. Errors: Error(io) also when another program changed the folder since it was read.
void apply_metadata_edit(const Checkpoint& checkpoint, MetadataEdit edit, const std::filesystem::path& folder,
                         const SaveOptions& options);

}  // namespace ckpt::detail
