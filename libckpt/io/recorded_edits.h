#pragma once
// The records of edits in place (edit_journal.h) of the files in a folder, for a person who wants to know what is
// pending and what may be taken back. Nothing is changed. Thread safety: any number of calls at once. Use: for (const
// RecordedEdit& edit : find_recorded_edits("runs")) if (edit.state == RecordedEdit::State::pending) ...

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ckpt {

struct RecordedEdit {
  enum class State : std::uint8_t {
    pending,       ///< it goes on or was interrupted; readers see the file as before, the next edit takes it back
    may_undo,      ///< EditJournal::undo() takes it back
    outdated,      ///< the file was changed since, or was never touched: the next edit or save removes the record
    without_file,  ///< the file is gone, and nobody reads the record
    unreadable,    ///< the record, or the file, is not ours to read
  };
  std::string file;    ///< name of the file that was edited; that of the record where there is none
  std::string record;  ///< ".net.safetensors.ckpt-journal"; with its path where it lies in the state folder
  State state = State::unreadable;
  std::uint64_t bytes = 0;  ///< that would be put back or cut off
};

/// Sorted by name. Errors: Error(io) for a folder that cannot be read.
std::vector<RecordedEdit> find_recorded_edits(const std::filesystem::path& folder);

}  // namespace ckpt
