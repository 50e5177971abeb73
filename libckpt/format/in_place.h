#pragma once
// Saves over the file that a checkpoint was read from: what they would refuse, for a dry run to say beforehand, and
// which of them need not write the file anew. Thread safety: pure. Use: check_in_place(checkpoint,
// "model.safetensors.index.json");

#include <filesystem>
#include <optional>
#include <string_view>

#include "libckpt/checkpoint.h"
#include "libckpt/io/set_edit.h"
#include "libckpt/options.h"

namespace ckpt {

struct InPlaceEdit {
  FileEdit changes;            ///< of the file itself
  std::optional<SetEdit> set;  ///< in their place, of several files
  std::string_view part;       ///< what of the file is written: "header"

  bool appends() const { return !set && changes.appends(); }
  std::uint64_t length() const { return set ? set->length() : changes.length(); }
};

/// A file that is packed as a whole (gzip, zstd) is only read. Errors: Error(unsupported) when `target` has the name of
/// one, or is the one that the checkpoint was read from.
void refuse_packed(const Checkpoint& checkpoint, const std::filesystem::path& target);

/// Nothing where `target` is not what the checkpoint was read from. Errors: Error(corrupt) for an index that does not
/// list all tensors of its files, which the save would drop.
void check_in_place(const Checkpoint& checkpoint, const std::filesystem::path& target);

/// What a save with SaveOptions::in_place would write where it lies in `target`; nullopt where it writes a whole new
/// file. REQUIRES: `checkpoint` and `options` are those of that save.
std::optional<InPlaceEdit> plan_in_place(const Checkpoint& checkpoint, const std::filesystem::path& target,
                                         const SaveOptions& options);
/// Makes the edit, and notes it in the report. Errors: those of EditJournal; Error(io) when another program changed the
/// file since the checkpoint was read from it.
void edit_in_place(const Checkpoint& checkpoint, InPlaceEdit edit, const std::filesystem::path& target,
                   const SaveOptions& options);

/// Takes the last edit in place of a file back, or one that was interrupted; an undone edit is done again. Returns how
/// many bytes were put back or cut off. Errors: those of EditJournal::undo().
std::uint64_t undo_edit(const std::filesystem::path& path);

}  // namespace ckpt
