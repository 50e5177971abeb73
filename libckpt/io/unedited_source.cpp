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
  UneditedSource(SourcePtr file, EditRecord record) : file_(std::move(file)), record_(std::move(record)) {}

  std::uint64_t size() const override { return file_->size(); }
  void read(std::uint64_t offset, MutableBytes out) const override {
    file_->read(offset, out);
    std::uint64_t begin = std::max(offset, record_.offset);
    std::uint64_t end = std::min(offset + out.size(), record_.offset + record_.old_bytes.size());
    if (begin >= end) return;
    Bytes old_bytes = Bytes(record_.old_bytes).subspan(begin - record_.offset, end - begin);
    std::ranges::copy(old_bytes, out.begin() + static_cast<std::ptrdiff_t>(begin - offset));
  }
  void require_unchanged() const override { file_->require_unchanged(); }

 private:
  SourcePtr file_;
  EditRecord record_;
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
  if (!found.record || stage_of(fd, *found.record) != EditStage::begun) return file;
  return std::make_shared<UneditedSource>(std::move(file), std::move(*found.record));
}

bool hides_edit(const ByteSource& source) {
  return dynamic_cast<const UneditedSource*>(&source) != nullptr;
}

}  // namespace ckpt::detail
