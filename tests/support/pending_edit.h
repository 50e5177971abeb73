#pragma once
// Makes of the last edit in place one that was interrupted: what takes it back becomes the journal beside the file.
// Use: test::make_pending(path); write_file(path, torn); EXPECT_TRUE(ckpt::EditJournal::settle(path));

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <stdexcept>

#include "libckpt/io/file_ops.h"
#include "libckpt/io/hidden_names.h"
#include "libckpt/io/undo_record.h"
#include "tests/support/temp_dir.h"

namespace test {

/// Throws std::runtime_error where no edit is recorded.
inline void make_pending(const std::filesystem::path& path) {
  std::string name = path.filename().string();
  ckpt::detail::Fd folder(::open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) throw std::runtime_error("no file " + path.string());
  ckpt::detail::FoundUndo found = ckpt::detail::find_undo(folder.get(), name, status.st_uid);
  ckpt::detail::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  bool last = found.parts.size() == 1 && file && ckpt::detail::is_as_left(file.get(), found.parts.front());
  if (!last) throw std::runtime_error("no record of the last edit of " + path.string());
  core::ByteVector bytes = ckpt::detail::encode(found.parts.front().record);
  write_file(path.parent_path() / ckpt::detail::journal_name(name), core::as_text(bytes));
  ckpt::detail::drop_undo(folder.get(), name);
}

}  // namespace test
