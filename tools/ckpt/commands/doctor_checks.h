#pragma once
// What `ckpt doctor` looks at: the tool, its helpers, the machine, the file system of a path, what was left there.
// Thread safety: one thread. Use: for (const DoctorLine& line : examine_machine()) ...

#include <filesystem>
#include <string>
#include <vector>

namespace cli {

struct DoctorLine {
  enum class State : std::uint8_t { good, note, missing };
  std::string topic;  ///< "file system"
  std::string name;   ///< "free space"
  std::string value;  ///< "34 GiB of 100 GiB"
  State state = State::good;
  std::string advice = {};  ///< what to do, or why it is so
};

/// The folder that a path is or lies in.
std::filesystem::path folder_of(const std::filesystem::path& path);

/// "good", "note", "missing".
std::string_view name(DoctorLine::State state);

/// Formats and what each can do.
std::vector<DoctorLine> examine_formats();
/// Programs that the tool starts, each tried, and what confines the one that reads HDF5 files.
std::vector<DoctorLine> examine_helpers();
/// Memory, cores, limits.
std::vector<DoctorLine> examine_machine();
/// What a save does there, found out by saving two small hidden files, which are removed. A folder that cannot be
/// written to is a note.
std::vector<DoctorLine> examine_folder(const std::filesystem::path& path);
/// What an edit in place does there, found out by making one in a hidden file, and which edits are pending or may be
/// taken back. Empty where there is no such folder.
std::vector<DoctorLine> examine_edits(const std::filesystem::path& path);
/// What killed programs left in the folder: hidden files of writers, and shards that no index names.
std::vector<DoctorLine> examine_leftovers(const std::filesystem::path& path);
/// Removes hidden files of writers that are gone, as every save to the folder does; what was removed. Errors:
/// Error(io).
std::vector<DoctorLine> sweep_folder(const std::filesystem::path& path);
/// Settings without an option given, and why.
std::vector<DoctorLine> examine_defaults();

}  // namespace cli
