// Edits that leave the arrays where they lie: the names of members change, in their own headers and in the directory.

#include "libckpt/format/npz/npz_archive.h"
#include "libckpt/io/zip_rename.h"

namespace ckpt::detail {
namespace {

/// True when the arrays of the archive, and no others, are to be written in the order of its directory.
bool same_arrays(const NpzDetail& old, const std::vector<FlatEntry>& entries) {
  bool all = entries.size() == old.members.size() && entries.size() == old.zip->members().size();
  for (std::size_t i = 0; all && i < entries.size(); ++i) {
    all = holds_array(old.members[i], *entries[i].entry);
  }
  return all;
}

}  // namespace

std::optional<FileEdit> edit_npz(const Checkpoint& checkpoint, const SaveOptions& options) {
  const auto& old = dynamic_cast<const NpzDetail&>(*checkpoint.detail);
  std::vector<FlatEntry> entries = flat_entries(checkpoint, npz_obstacle);
  if (!same_arrays(old, entries)) return std::nullopt;
  std::vector<std::string> names;
  names.reserve(entries.size());
  for (const FlatEntry& flat : entries) names.push_back(flat.name + std::string(kNpyExtension));
  std::optional<FileEdit> edit = rename_in_zip(*old.file, *old.zip, names);
  if (!edit) return std::nullopt;
  warn_about_losses(checkpoint, entries, options.report);
  warn_about_metadata(checkpoint, options.report);
  return edit;
}

}  // namespace ckpt::detail
