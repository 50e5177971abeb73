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
#include "libckpt/io/undo_record.h"
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

State state_of(int folder, int file, const FoundEdit& found) {
  if (found.kind != FoundEdit::Kind::present) return State::unreadable;
  if (!found.record) return State::outdated;
  EditStage stage = detail::stage_in(folder, file, *found.record);
  if (stage == EditStage::begun) return State::pending;
  return stage == EditStage::whole ? State::may_undo : State::outdated;
}

void look_at_journal(int folder, const Fd& file, uid_t owner, RecordedEdit& out) {
  FoundEdit found = detail::find_edit(folder, out.record, owner);
  out.state = state_of(folder, file.get(), found);
  if (found.record) out.bytes = found.record->edit.length();
}

/// The first part is of the file itself; others are of a set for which it stands.
void look_at_undo(int folder, detail::FoundUndo& found, RecordedEdit& out) {
  if (found.error != 0 || found.foreign) return;
  out.state = found.parts.empty() ? State::outdated : State::may_undo;
  for (detail::UndoPart& part : found.parts) {
    Fd file(::openat(folder, part.name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file || !detail::is_as_left(file.get(), part)) out.state = State::outdated;
    out.bytes += part.record.edit.length();
  }
}

/// What is recorded of edits of a file, if anything.
std::vector<RecordedEdit> look_at(int folder, const std::string& name, Names& names) {
  std::vector<RecordedEdit> all;
  Fd file(::openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  bool open = file && ::fstat(file.get(), &status) == 0;
  auto add = [&](const std::string& record, const auto& look) {
    RecordedEdit& out = all.emplace_back(RecordedEdit{.file = name, .record = record});
    try {
      if (open) look(out);
    } catch (const core::Error&) {
      out.state = State::unreadable;  // the disk gives no bytes
    }
  };
  std::string journal = detail::journal_name(name);
  if (names.records.erase(journal) > 0) {
    add(journal, [&](RecordedEdit& out) { look_at_journal(folder, file, status.st_uid, out); });
  }
  detail::FoundUndo found = detail::find_undo(folder, name, status.st_uid);
  names.records.erase(detail::undo_name(name));
  if (found.kept != UndoKept::nowhere) {
    add(found.path, [&](RecordedEdit& out) { look_at_undo(folder, found, out); });
  }
  return all;
}

std::vector<RecordedEdit> find(const fs::path& path) {
  Fd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) detail::throw_errno(errno, "the folder cannot be read");
  Names names = names_in(path);
  std::vector<RecordedEdit> out;
  for (const std::string& name : names.files) {
    for (RecordedEdit& edit : look_at(folder.get(), name, names)) out.push_back(std::move(edit));
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
