#pragma once
// EditJournal: changes bytes of a file where they lie, and its end, so that an edit writes what changes and nothing
// else. Before the first of them goes, the old and the new ones are made durable in a record beside the file
// (".net.safetensors.ckpt-journal"); once the new ones are durable, it goes, and what undo() takes the edit back from
// is kept in the user's state folder (undo_record.h). Of an edit that only appends nothing is kept: the file itself
// holds what it was before, and its format knows where that ends (undo_edit() in format/in_place.h). Where an edit was
// interrupted, files opened through byte_source.h read as before it (unedited_source.h), the next edit or save of the
// file puts the old bytes back, and settle() does just that. Other programs do not know the record: while an edit runs,
// or after one was interrupted, they may see half of it. Thread safety: one owner; one writer a file, as with
// AtomicFile. Use: EditJournal journal("net.safetensors"); FileEdit edit{.old_size = size, .new_size = size};
// edit.replace(8, old_header, new_header); journal.apply(edit);

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/bytes.h"

namespace ckpt {

/// Bytes of a file that as many others take the place of.
struct FilePatch {
  std::uint64_t offset = 0;
  core::ByteVector old_bytes;
  core::ByteVector new_bytes;
};

/// What an edit does to a file, told so that it can be taken back.
struct FileEdit {
  std::uint64_t old_size = 0;
  std::uint64_t new_size = 0;
  std::vector<FilePatch> patches = {};  ///< ascending, apart from each other, inside the shorter version
  core::ByteVector tail = {};           ///< what the longer version has behind the end of the shorter
  std::string_view part = {};           ///< what of the file it writes, where that is not what it always is

  /// True when all that was in the file before stays there.
  bool appends() const;
  std::uint64_t common_size() const { return std::min(old_size, new_size); }
  /// How many bytes are replaced by others, added or cut off; 0 for an edit that changes nothing.
  std::uint64_t length() const;
  /// Adds a patch behind all others. Nothing where both are the same. REQUIRES: as many old as new bytes.
  void replace(std::uint64_t offset, core::Bytes old_bytes, core::Bytes new_bytes);
  /// The same, without the long runs of bytes that stay.
  void replace_where_different(std::uint64_t offset, core::Bytes old_bytes, core::Bytes new_bytes);
  /// Gives the file another end: `new_end` for `old_end`, which begins at `offset`. REQUIRES: no patch lies there.
  void replace_end(std::uint64_t offset, core::Bytes old_end, core::Bytes new_end);
};

/// Where the record lies from which an edit is taken back.
enum class UndoKept : std::uint8_t {
  nowhere,       ///< neither place could take it: the edit stands, and cannot be taken back
  in_file,       ///< the edit only appended
  state_folder,  ///< of the user
  beside,        ///< the file, since there is no state folder or it has no room
};

/// What a person should know of how an edit is taken back; "" where all is as usual.
std::string undo_warning(UndoKept kept);

class EditJournal {
 public:
  /// Takes the writer lock and settles an edit that was interrupted. Follows symbolic links. Errors: Error(io) for a
  /// missing file, no permission, another writer.
  explicit EditJournal(const std::filesystem::path& path);
  ~EditJournal();
  EditJournal(const EditJournal&) = delete;
  EditJournal& operator=(const EditJournal&) = delete;

  /// False where an edit in place would change more than the file of that name, or could not be recorded: a file with
  /// several hard links, without write permission, of another user.
  static bool may_edit(const std::filesystem::path& path);

  /// False for an edit whose record would be longer than what is read of one.
  static bool can_record(const FileEdit& edit);

  /// Durable when it returns. Errors: Error(io) when the file has other bytes or another size than the edit says, and
  /// from the system; the file is then as it was, unless the message says otherwise. REQUIRES: the edit changes
  /// something, and can_record() it.
  UndoKept apply(FileEdit edit);
  /// Takes back the edit that was interrupted, else the last one (an undone edit is one as well, so a second call does
  /// it again). After a power cut right behind the edit there may be no record of it any more. Returns how many bytes
  /// were put back or cut off. Errors: those of apply(); Error(io) when no edit is recorded or the file was changed
  /// since.
  std::uint64_t undo();
  /// True when undo() has a record, or the constructor took an interrupted edit back.
  bool can_undo() const;

  /// Puts the old bytes back where an edit was interrupted, also one of the set that an index stands for (set_edit.h);
  /// true when one was. Errors: those of the constructor, where
  /// there is something to do.
  static bool settle(const std::filesystem::path& path);

 private:
  friend UndoKept keep_undo_of_replaced(const std::filesystem::path& path, FileEdit edit);
  friend std::uint64_t undo_by_replacing(const std::filesystem::path& path);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// For a file that was just replaced as a whole, in one step: keeps what undo() takes that back from, which then is an
/// edit in place, or undo_by_replacing(). `edit` tells both versions. Errors: Error(io) for another writer, and where
/// the file is not the new version any more. REQUIRES: EditJournal::can_record() it.
UndoKept keep_undo_of_replaced(const std::filesystem::path& path, FileEdit edit);

/// As EditJournal::undo(), for a file that programs read which know no records: the version before is written beside it
/// and takes its place in one step. Errors: those of EditJournal::undo() and of AtomicFile.
std::uint64_t undo_by_replacing(const std::filesystem::path& path);

namespace detail {

/// settle() for a writer that holds the lock of `name` in the open folder; how many bytes were put back.
std::uint64_t settle_edit(int folder, const std::string& name);
/// The record of the last edit has no use once another file has the name (undo_record.cpp).
void drop_undo(int folder, const std::string& name);

}  // namespace detail
}  // namespace ckpt
