#pragma once
// The record of an edit in place: which bytes of which file, the old and the new ones, and the end of the longer
// version of both. What lies beside a file is not to be trusted: a record counts only when it is a regular file of the
// file's own owner, whole by its hash, and when the file has a length between the old and the new one and every byte
// that the record is about is one of either version. Internal to libckpt/io. Thread safety: pure functions. Use:
// FoundEdit found = find_edit(folder_fd, journal_name(name), owner); stage_of(fd.get(), found.record->edit);

#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>

#include "libckpt/io/checksum.h"
#include "libckpt/io/edit_journal.h"
#include "libcore/base/bytes.h"

namespace ckpt::detail {

/// Of a file that is edited together with others (set_edit.h): the edit of it stands as soon as the head is the new
/// one.
struct EditOfSet {
  std::string head;    ///< a name in the folder
  std::string member;  ///< that of the file itself
  Hash128 before;      ///< of the old head
  Hash128 after;
};

struct EditRecord {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  FileEdit edit;
  std::optional<EditOfSet> set = {};
};

/// The edit with bytes that stay in front of a new end, where none of its patches lies there: a record of a file that
/// only becomes longer would else fit any file. Errors: Error(io).
FileEdit anchored(int file, FileEdit edit);
/// The edit that takes it back.
FileEdit reversed(FileEdit edit);

inline constexpr std::uint64_t kLongestRecord = 256ULL << 20;  ///< longer ones are not believed

/// Of encode().
std::uint64_t record_size(const EditRecord& record);
core::ByteVector encode(const EditRecord& record);
/// The same, behind what is there.
void append_record(core::ByteVector& out, const EditRecord& record);
/// nullopt for bytes that encode() did not make, and for a part of those.
std::optional<EditRecord> decode(core::Bytes bytes);

struct FoundEdit {
  enum class Kind : std::uint8_t {
    none,        ///< nothing there, or somebody else's
    unreadable,  ///< `error` says why
    present,
  };
  Kind kind = Kind::none;
  std::optional<EditRecord> record;  ///< empty when it is not whole
  int error = 0;
};

/// What lies under the name of a record; empty where nothing does, or what is not to be trusted.
struct RecordBytes {
  FoundEdit::Kind kind = FoundEdit::Kind::none;
  core::ByteVector bytes;  ///< empty for more than kLongestRecord
  int error = 0;
};
RecordBytes read_record(int folder, const std::string& name, uid_t owner);

/// `owner`: of the file that the record is of.
FoundEdit find_edit(int folder, const std::string& name, uid_t owner);

/// How far an edit has come. The bytes say that better than the number of an inode: that stays when another program
/// writes a new file over the old one, and is another one in a copy of the folder.
enum class EditStage : std::uint8_t {
  foreign,  ///< it is not one of this file
  begun,    ///< some bytes may be new
  whole,    ///< all are
};
/// Of an open file. Errors: Error(io).
EditStage stage_of(int file, const FileEdit& edit);
/// The same of one that lies in an open folder, where the head of a set decides about an edit of a member.
EditStage stage_in(int folder, int file, const EditRecord& record);
/// True when the open file is the one before the edit, as far as it says. Errors: Error(io).
bool is_before(int file, const FileEdit& edit);

enum class Version : std::uint8_t { before, after };
/// Gives an open file the bytes and the length of a version: 0, or the errno that stopped it. Not durable yet.
int write_version(int file, const FileEdit& edit, Version version);
/// The bytes of a version, of those of the other.
core::ByteVector version_of(core::Bytes other, const FileEdit& edit, Version version);

/// Reads at an offset until `out` is full or the file ends; the bytes that were there. Errors: Error(io).
core::Bytes read_at(int file, std::uint64_t offset, core::MutableBytes out);

/// Writes the journal of the file `name`, which is open as `file`, and makes it durable, but not its name: 0, or the
/// errno that stopped it, and then nothing is left of it.
int write_journal(int folder, const std::string& name, int file, core::Bytes encoded);

}  // namespace ckpt::detail
