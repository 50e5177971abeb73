#pragma once
// Edits in place of several files that are read through one of them, the head (a shard index): each member is changed
// where its bytes lie, then one rename puts the new head in place. That rename decides: before it, every member reads
// as it was, after it, as it is now. So each member has its own journal beside it (edit_journal.h), which names the
// head and tells the old one from the new one by a hash; whoever opens a member looks there. Killed at any point, the
// old or the new set is there, whole; the next edit or save of the set, or settle_set(), takes back what was not
// decided. A set has one writer, who holds the lock of the head and of each member. Thread safety: one owner. Use:
// SetEdit edit{old_index, new_index, {{"m-00001-of-00002.safetensors", changes}}}; apply_set_edit("m.index.json",
// edit);

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/io/edit_journal.h"
#include "libcore/base/bytes.h"

namespace ckpt {

struct MemberEdit {
  std::string name;  ///< of a file beside the head
  FileEdit changes;
};

struct SetEdit {
  core::ByteVector old_head;
  core::ByteVector new_head;
  std::vector<MemberEdit> members;

  /// How many bytes are written: the new head, and what of each member is replaced, added or cut off.
  std::uint64_t length() const;
};

/// False where a member of that name beside the head may not be edited where it lies (EditJournal::may_edit()), or is a
/// link.
bool may_edit_member(const std::filesystem::path& head, const std::string& name);

/// Durable when it returns. Errors: Error(io) when a file has other bytes than the edit says, for another writer, and
/// from the system; the old set is whole unless the message says that the "durability is unknown". REQUIRES: the heads
/// differ; members that may be edited, each with an edit that changes something and can be recorded.
UndoKept apply_set_edit(const std::filesystem::path& head, const SetEdit& edit);

/// True when the last edit of `head` was one of a set, and its record is there.
bool is_set_edit(const std::filesystem::path& head);
/// Takes the last edit of the set back, which can be taken back in turn. Returns SetEdit::length(). Errors: those of
/// apply_set_edit(); Error(io) when a file was changed since.
std::uint64_t undo_set_edit(const std::filesystem::path& head);

/// Takes back what an interrupted edit of the set left undecided, and removes the journals of one that stands. Returns
/// how many bytes were put back. Errors: Error(io), where there is something to do.
std::uint64_t settle_set(const std::filesystem::path& head);

namespace detail {

/// True for the names of files that may stand for a set: of all others nobody looks for members.
bool may_be_head(std::string_view name);

/// settle_set() for a writer that holds the lock of `head` in the open folder.
std::uint64_t settle_members(int folder, const std::string& head);

}  // namespace detail
}  // namespace ckpt
