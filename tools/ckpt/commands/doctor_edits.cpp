// `ckpt doctor PATH`: what edits in place can do in a folder, found out by making one, and which may be taken back.

#include <cstdio>

#include "libckpt/analyze/pasteable.h"
#include "libckpt/io/edit_journal.h"
#include "libckpt/io/folder_trial.h"
#include "libckpt/io/recorded_edits.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/doctor_checks.h"
#include "tools/ckpt/output/output.h"

namespace cli {
namespace {

namespace fs = std::filesystem;
using ckpt::RecordedEdit;
using State = DoctorLine::State;

constexpr const char* kTopic = "edits in place";

DoctorLine line(const std::string& name, bool works, const std::string& value, const std::string& otherwise,
                const std::string& advice) {
  return {kTopic, name, works ? value : otherwise, works ? State::good : State::note, works ? "" : advice};
}

std::vector<DoctorLine> try_editing(const fs::path& folder) {
  ckpt::EditTrial trial;
  try {
    trial = ckpt::try_edits(folder);
  } catch (const core::Error& error) {
    return {{kTopic, "editing", "not possible: " + error.message(), State::note,
             "an edit needs a folder where files can be created, for its record"}};
  }
  char time[64];
  std::snprintf(time, sizeof time, "header or end rewritten in %.1f ms, with fsync", trial.milliseconds);
  return {
      {kTopic, "editing", time},
      line("record of an edit", trial.syncs_folder, "durable before the file changes", "its name may not be durable",
           "the folder has no fsync; after a power cut an edit may be left half made"),
      line(
          "undo", trial.undo == ckpt::UndoKept::state_folder, "the record is kept in the state folder of the user",
          trial.undo == ckpt::UndoKept::beside ? "the record is kept beside the file" : "there is no room for a record",
          "set HOME or XDG_STATE_HOME to a folder that can be written to; edits then leave nothing beside files"),
      line("names that grow", true,
           "without room in a safetensors or GGUF header: up to 32 MiB of tensors move to the end, else a copy", "",
           ""),
      line("hard links", trial.links, "yes; a file with several is copied, not edited", "not here",
           "no file has several names, and any may be edited"),
      line("reflink (FICLONE)", trial.clones, "yes; a copy shares its blocks", "not here",
           "where an edit does not fit, the copy takes the time and the room of the whole file"),
  };
}

/// Which files EditJournal would edit; the others are written anew.
DoctorLine count_files(const fs::path& folder) {
  std::uint64_t all = 0;
  std::uint64_t fit = 0;
  std::error_code error;
  std::error_code ignored;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename().string().front() == '.' || !fs::is_regular_file(at->symlink_status(ignored))) continue;
    ++all;
    if (ckpt::EditJournal::may_edit(at->path())) ++fit;
  }
  return line("files here", fit == all, count_of(all, "file") + ", all may be edited",
              core::format_count(fit) + " of " + count_of(all, "file") + " may be edited",
              "the others have several hard links, no write permission or another owner, and are copied");
}

std::string undo_command(const fs::path& folder, const std::string& name) {
  ckpt::ShellCommand command("ckpt");
  command.word("undo").file((folder == "." ? fs::path(name) : folder / name).string());
  return "'" + command.text() + "'";
}

DoctorLine describe(const fs::path& folder, const RecordedEdit& edit) {
  DoctorLine out{kTopic, core::printable(edit.file), "", State::note};
  std::string size = ", " + core::format_size(edit.bytes);
  switch (edit.state) {
    case RecordedEdit::State::pending:
      out.value = "an edit goes on or was interrupted" + size;
      out.advice = "the file reads as before; the next edit or " + undo_command(folder, edit.file) + " takes it back";
      break;
    case RecordedEdit::State::may_undo:
      out.value = "the last edit can be taken back" + size;
      out.state = State::good;
      out.advice = undo_command(folder, edit.file);
      break;
    case RecordedEdit::State::outdated:
      out.value = "the file is not as its last edit left it";
      out.advice = "nothing can be taken back; the next edit removes the record";
      break;
    case RecordedEdit::State::without_file:
      out.value = "record of an edit of a file that is gone";
      out.advice = "nothing reads it; remove it";
      break;
    case RecordedEdit::State::unreadable:
      out.value = "the record of an edit cannot be read or is another user's";
      out.advice = "look at " + core::quote(edit.record);
      break;
  }
  return out;
}

std::vector<DoctorLine> records_in(const fs::path& folder) {
  std::vector<DoctorLine> lines;
  try {
    for (const RecordedEdit& edit : ckpt::find_recorded_edits(folder)) lines.push_back(describe(folder, edit));
  } catch (const core::Error& error) {
    return {{kTopic, "records", error.message(), State::note}};
  }
  if (lines.empty()) {
    lines.push_back(
        {kTopic, "records", "none: nothing is pending; what an edit appended to a .pth needs none to be taken back"});
  }
  return lines;
}

}  // namespace

std::vector<DoctorLine> examine_edits(const fs::path& path) {
  std::error_code ignored;
  fs::path folder = folder_of(path);
  if (!fs::is_directory(folder, ignored)) return {};
  std::vector<DoctorLine> lines = try_editing(folder);
  lines.push_back(count_files(folder));
  for (DoctorLine& record : records_in(folder)) lines.push_back(std::move(record));
  return lines;
}

}  // namespace cli
