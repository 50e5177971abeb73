#pragma once
// A folder that exists as long as the object. Use: TempDir dir; auto file = dir.path() / "a.ckpt";

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace test {

class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// While it lives, the user has no state folder (XDG_STATE_HOME), so that what takes an edit in place back lies beside
/// the file. Otherwise it is a folder of this process that goes with it.
class WithoutStateFolder {
 public:
  WithoutStateFolder();
  ~WithoutStateFolder();
  WithoutStateFolder(const WithoutStateFolder&) = delete;
  WithoutStateFolder& operator=(const WithoutStateFolder&) = delete;

 private:
  std::string old_;
};

/// The whole file. Throws std::runtime_error when it cannot be read.
std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, std::string_view content);
/// Names in a folder, sorted: shows that nothing was left behind.
std::vector<std::string> list_folder(const std::filesystem::path& path);

}  // namespace test
