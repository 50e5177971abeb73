#include "libckpt/io/recorded_edits.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include "libckpt/io/edit_record.h"
#include "libckpt/io/file_ops.h"
#include "libckpt/io/hidden_names.h"
#include "libcore/base/error.h"

namespace ckpt {
namespace {

using detail::EditStage;
using detail::Fd;
using detail::FoundEdit;
using State = RecordedEdit::State;
namespace fs = std::filesystem;

/// Names of all files in a folder, and which of them are records.
struct Names {
  std::vector<std::string> files;
  std::set<std::string> records;
};

Names names_in(const fs::path& folder) {
  Names names;
  std::error_code error;
  std::error_code ignored;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::string name = at->path().filename().string();
    if (detail::is_record_name(name)) {
      names.records.insert(std::move(name));
    } else if (fs::is_regular_file(at->symlink_status(ignored))) {
      names.files.push_back(std::move(name));
    }
  }
  if (error) detail::throw_errno(error.value(), "the folder cannot be read");
  return names;
}

bool is_later(const timespec& a, const timespec& b) {
  return std::pair(a.tv_sec, a.tv_nsec) > std::pair(b.tv_sec, b.tv_nsec);
}

State state_of(int file, const struct stat& status, const FoundEdit& found, bool pending) {
  if (found.kind != FoundEdit::Kind::present) return State::unreadable;
  if (!found.record) return State::outdated;
  EditStage stage = detail::stage_of(file, found.record->edit);
  if (pending && stage == EditStage::begun) return State::pending;
  bool same = found.record->device == status.st_dev && found.record->inode == status.st_ino;
  bool last = same && (pending || !is_later(status.st_mtim, found.named));
  return last && stage == EditStage::whole ? State::may_undo : State::outdated;
}

RecordedEdit look_at(int folder, const std::string& name, const std::string& record, bool pending) {
  RecordedEdit out{.file = name, .record = record};
  Fd file(::openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) return out;
  try {
    FoundEdit found = detail::find_edit(folder, record, status.st_uid);
    out.state = state_of(file.get(), status, found, pending);
    if (found.record) out.bytes = found.record->edit.length();
  } catch (const core::Error&) {
    out.state = State::unreadable;  // the disk gives no bytes
  }
  return out;
}

std::vector<RecordedEdit> find(const fs::path& path) {
  Fd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) detail::throw_errno(errno, "the folder cannot be read");
  Names names = names_in(path);
  std::vector<RecordedEdit> out;
  for (const std::string& name : names.files) {
    std::string journal = detail::journal_name(name);
    std::string undo = detail::undo_name(name);
    if (names.records.erase(journal) > 0) out.push_back(look_at(folder.get(), name, journal, true));
    if (names.records.erase(undo) > 0) out.push_back(look_at(folder.get(), name, undo, false));
  }
  for (const std::string& record : names.records) out.push_back({record, record, State::without_file});
  std::sort(out.begin(), out.end(), [](const RecordedEdit& a, const RecordedEdit& b) { return a.record < b.record; });
  return out;
}

}  // namespace

std::vector<RecordedEdit> find_recorded_edits(const fs::path& folder) {
  return core::with_context(folder.string(), [&] { return find(folder); });
}

}  // namespace ckpt
