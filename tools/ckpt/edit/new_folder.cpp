#include "tools/ckpt/edit/new_folder.h"

#include <fcntl.h>
#include <unistd.h>

namespace cli {

NewFolder::NewFolder(std::filesystem::path path) : path_(std::move(path)) {
  ckpt::detail::Step step;
  std::error_code ignored;
  if (!path_.empty() && std::filesystem::create_directories(path_, ignored)) pending_.emplace(AT_FDCWD, path_.native());
}

NewFolder::~NewFolder() {
  if (pending_) ::rmdir(path_.c_str());  // which only works on an empty one
}

}  // namespace cli
