#pragma once
// A disk that can lose power: the system calls of libckpt (io/file_ops.h) run for real in one folder, while everything
// that changes the folder is written down with its bytes. From the log follow the folders that a power cut may leave
// (power_cut_states.h). Thread safety: calls may come from several threads; one recording at a time.
// Use: SimulatedDisk disk(folder); ckpt::save(checkpoint, folder / "net.ckpt"); disk.stop(); disk.log();

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace test::faults {

/// What a folder holds: names and bytes; of what is in a folder below it "run/part", and "run/" for one without
/// anything. A power cut is played for files of the folder itself alone.
using Folder = std::map<std::string, std::shared_ptr<const std::string>>;

Folder read_folder(const std::filesystem::path& path);
/// Makes `path` an empty folder, then writes the files. Of edits that were made before nothing is known any more.
void write_folder(const std::filesystem::path& path, const Folder& folder);

struct DiskOp {
  enum class Kind : std::uint8_t { write, resize, create, rename, link, unlink, sync_file, sync_folder };
  Kind kind;
  std::uint32_t file = 0;        ///< number of the file: those of the start by name, then in order of creation
  std::uint64_t offset = 0;      ///< write: where; resize: the new size
  std::string bytes = {};        ///< write
  std::string name = {};         ///< create, rename, link, unlink
  std::string second_name = {};  ///< rename, link: the new name
  bool changes_names() const { return kind >= Kind::create && kind <= Kind::unlink; }
  bool changes_content() const { return kind <= Kind::resize; }
};

class SimulatedDisk {
 public:
  /// Takes what lies in the folder as safely stored, and records from now on.
  explicit SimulatedDisk(const std::filesystem::path& folder);
  ~SimulatedDisk();
  SimulatedDisk(const SimulatedDisk&) = delete;
  SimulatedDisk& operator=(const SimulatedDisk&) = delete;
  void stop();

  const std::vector<DiskOp>& log() const;
  /// The content of file i at the start; files made later have none.
  const std::vector<std::shared_ptr<const std::string>>& start_contents() const;
  const std::map<std::string, std::uint32_t>& start_names() const;
  /// True when the log accounts for the folder as it is now: nothing changed it past FileOps.
  bool accounts_for(const Folder& now) const;

 private:
  struct Recorder;
  std::unique_ptr<Recorder> recorder_;
};

}  // namespace test::faults
