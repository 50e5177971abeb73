#include "libckpt/transform/model_folder.h"

#include <algorithm>
#include <string>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {

std::filesystem::path find_model_index(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) return folder;
  std::vector<std::string> found;
  std::filesystem::directory_iterator entries(folder, error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    std::string name = entries->path().filename().string();
    if (name.ends_with(".index.json") && name[0] != '.') found.push_back(std::move(name));
  }
  if (error) throw core::Error(core::ErrorCode::io, "cannot read the folder: " + error.message()).add_context(folder);
  std::sort(found.begin(), found.end());
  if (found.size() == 1) return folder / found.front();
  if (found.empty()) {
    throw core::Error(core::ErrorCode::io, "no shard index (*.index.json) is in this folder").add_context(folder);
  }
  std::string list;
  for (const std::string& name : found) list += (list.empty() ? "" : ", ") + core::quote(name);
  throw core::Error(core::ErrorCode::usage, "several shard indexes are in this folder: " + list + "; name one")
      .add_context(folder);
}

}  // namespace ckpt
