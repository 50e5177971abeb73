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

/// The whole file. Throws std::runtime_error when it cannot be read.
std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, std::string_view content);
/// Names in a folder, sorted: shows that nothing was left behind.
std::vector<std::string> list_folder(const std::filesystem::path& path);

}  // namespace test
