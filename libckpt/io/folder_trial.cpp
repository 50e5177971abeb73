#include "libckpt/io/folder_trial.h"

#include <linux/fs.h>
#include <sys/ioctl.h>

#include <chrono>
#include <string>

#include "libckpt/io/atomic_file.h"
#include "libckpt/io/byte_source.h"
#include "libckpt/io/edit_journal.h"
#include "libckpt/io/file_ops.h"
#include "libckpt/io/hidden_names.h"
#include "libckpt/io/pending_files.h"
#include "libckpt/io/replaced_file.h"
#include "libckpt/io/writer_lock.h"

namespace ckpt {
namespace {

using detail::FileOps;

constexpr std::uint64_t kSize = 1 << 20;
constexpr std::uint64_t kEdited = 4096;

const FileOps* watched = nullptr;  ///< the table in use without us
FolderTrial seen;

int watch_fallocate(int fd, int mode, off_t offset, off_t size) {
  int result = watched->fallocate(fd, mode, offset, size);
  seen.reserves |= result == 0;
  return result;
}
ssize_t watch_copy(int in, off_t* in_offset, int out, off_t* out_offset, std::size_t size, unsigned flags) {
  ssize_t result = watched->copy_file_range(in, in_offset, out, out_offset, size, flags);
  seen.copies |= result > 0;
  return result;
}
int watch_rename(int old_folder, const char* old_name, int new_folder, const char* new_name, unsigned flags) {
  int result = watched->renameat2(old_folder, old_name, new_folder, new_name, flags);
  seen.renames |= result == 0 && (flags & RENAME_NOREPLACE) != 0;
  return result;
}
/// The last of a save is that of the folder.
int watch_fsync(int fd) {
  int result = watched->fsync(fd);
  seen.syncs_folder = result == 0;
  return result;
}

/// While it lives, the calls of this process are watched.
class Watch {
 public:
  Watch() : table_(detail::file_ops()) {
    watched = &detail::file_ops();
    seen = {};
    table_.fallocate = watch_fallocate;
    table_.copy_file_range = watch_copy;
    table_.renameat2 = watch_rename;
    table_.fsync = watch_fsync;
    detail::set_file_ops(table_);
  }
  ~Watch() { detail::set_file_ops(*watched); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  FileOps table_;
};

/// A hidden file of the folder, until it goes. Its name is that of a temporary file, so that the next save removes what
/// a killed trial leaves.
class TriedFile {
 public:
  explicit TriedFile(const detail::Target& place)
      : folder_(place.folder.get()),
        name_(detail::temporary_name(place.name)),
        path_(std::filesystem::path(place.folder_path) / name_),
        pending_(folder_, name_) {}
  ~TriedFile() { detail::file_ops().unlinkat(folder_, name_.c_str(), 0); }
  TriedFile(const TriedFile&) = delete;
  TriedFile& operator=(const TriedFile&) = delete;

  void save(const ByteSource& bytes) const {
    AtomicFile file(path_, {.overwrite = false, .durable = true, .expected_size = bytes.size(), .lock = false});
    file.write_from(bytes);
    file.commit();
  }
  const std::filesystem::path& path() const { return path_; }
  const std::string& name() const { return name_; }

 private:
  int folder_;
  std::string name_;
  std::filesystem::path path_;
  detail::PendingFile pending_;
};

/// What an edit leaves beside its file to be taken back by, until it goes.
class TriedRecord {
 public:
  TriedRecord(int folder, const std::string& name)
      : folder_(folder),
        name_(name),
        journal_(folder, detail::journal_name(name)),
        undo_(folder, detail::undo_name(name)) {}
  ~TriedRecord() { detail::drop_undo(folder_, name_); }
  TriedRecord(const TriedRecord&) = delete;
  TriedRecord& operator=(const TriedRecord&) = delete;

 private:
  int folder_;
  std::string name_;
  detail::PendingFile journal_;
  detail::PendingFile undo_;
};

core::ByteVector filled(char value) {
  return core::ByteVector(kEdited, static_cast<std::byte>(value));
}

/// Replaces bytes and gives the file another end; both are there afterwards, or the trial has failed.
void edit_and_undo(const std::filesystem::path& path, EditTrial& trial) {
  FileEdit edit{.old_size = kEdited, .new_size = 2 * kEdited, .patches = {}, .tail = filled('z')};
  edit.replace(0, filled('x'), filled('y'));
  auto start = std::chrono::steady_clock::now();
  trial.undo = EditJournal(path).apply(edit);
  std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  trial.milliseconds = spent.count();
  EditJournal(path).undo();
}

bool can_link(int folder, const std::string& name, const std::string& other) {
  return detail::file_ops().linkat(folder, name.c_str(), folder, other.c_str(), 0) == 0 &&
         detail::file_ops().unlinkat(folder, other.c_str(), 0) == 0;
}

bool can_clone(const std::filesystem::path& from, const std::filesystem::path& to) {
  detail::Fd source(::open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  detail::Fd target(::open(to.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  return source && target && ::ioctl(target.get(), FICLONE, source.get()) == 0;
}

}  // namespace

FolderTrial try_folder(const std::filesystem::path& folder) {
  detail::Target place = detail::look_up(folder / "ckpt-doctor");
  detail::WriterLock lock(place.folder.get(), place.name);
  TriedFile first(place);
  TriedFile second(place);
  Watch watch;
  auto start = std::chrono::steady_clock::now();
  first.save(*memory_source(core::ByteVector(kSize, std::byte{'x'})));
  std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  second.save(*open_file(first.path()));
  FolderTrial out = seen;
  out.milliseconds = spent.count();
  out.locks = lock.locked();
  return out;
}

EditTrial try_edits(const std::filesystem::path& folder) {
  detail::Target place = detail::look_up(folder / "ckpt-doctor");
  TriedFile file(place);
  TriedFile other(place);
  TriedRecord record(place.folder.get(), file.name());
  file.save(*memory_source(filled('x')));
  EditTrial out;
  edit_and_undo(file.path(), out);
  out.syncs_folder = detail::file_ops().fsync(place.folder.get()) == 0;
  out.links = can_link(place.folder.get(), file.name(), other.name());
  other.save(*memory_source(filled('o')));
  out.clones = can_clone(file.path(), other.path());
  return out;
}

}  // namespace ckpt
