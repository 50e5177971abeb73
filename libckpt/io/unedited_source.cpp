#include "libckpt/io/unedited_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "libckpt/io/edit_record.h"
#include "libckpt/io/file_ops.h"
#include "libckpt/io/hidden_names.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

namespace fs = std::filesystem;

class UneditedSource final : public ByteSource {
 public:
  UneditedSource(SourcePtr file, FileEdit edit) : file_(std::move(file)), edit_(std::move(edit)) {}

  std::uint64_t size() const override { return edit_.old_size; }
  void read(std::uint64_t offset, MutableBytes out) const override {
    std::uint64_t shared = std::min<std::uint64_t>(out.size(), std::max(edit_.common_size(), offset) - offset);
    if (shared > 0) file_->read(offset, out.first(shared));
    for (const FilePatch& patch : edit_.patches) lay_over(patch.offset, patch.old_bytes, offset, out);
    if (shared < out.size()) lay_over(edit_.common_size(), edit_.tail, offset, out);
  }
  void require_unchanged() const override { file_->require_unchanged(); }

 private:
  /// What of `bytes`, which belong at `at`, falls into `out`, which was read at `offset`.
  static void lay_over(std::uint64_t at, Bytes bytes, std::uint64_t offset, MutableBytes out) {
    std::uint64_t begin = std::max(offset, at);
    std::uint64_t end = std::min(offset + out.size(), at + bytes.size());
    if (begin >= end) return;
    std::ranges::copy(bytes.subspan(begin - at, end - begin),
                      out.begin() + static_cast<std::ptrdiff_t>(begin - offset));
  }

  SourcePtr file_;
  FileEdit edit_;
};

/// Where the record would lie: beside the file itself, not beside a link to it.
fs::path real_path(const fs::path& path) {
  std::error_code failed;
  if (!fs::is_symlink(path, failed)) return path;
  fs::path real = fs::canonical(path, failed);
  return failed ? path : real;
}

}  // namespace

SourcePtr as_before_edit(SourcePtr file, const fs::path& path) {
  fs::path real = real_path(path);
  std::string journal = journal_name(real.filename().string());
  struct stat status {};
  if (::lstat((real.parent_path() / journal).c_str(), &status) != 0) return file;
  Fd folder(::open(real.has_parent_path() ? real.parent_path().c_str() : ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  int fd = file->file_range()->fd;
  if (!folder || ::fstat(fd, &status) != 0) throw_errno(errno, "cannot look for the record of an edit");
  FoundEdit found = find_edit(folder.get(), journal, status.st_uid);
  if (found.kind == FoundEdit::Kind::unreadable) {
    throw_errno(found.error, "an edit of this file goes on or was interrupted, and its record cannot be read");
  }
  if (!found.record || stage_in(folder.get(), fd, *found.record) != EditStage::begun) return file;
  return std::make_shared<UneditedSource>(std::move(file), std::move(found.record->edit));
}

bool hides_edit(const ByteSource& source) {
  return dynamic_cast<const UneditedSource*>(&source) != nullptr;
}

}  // namespace ckpt::detail
