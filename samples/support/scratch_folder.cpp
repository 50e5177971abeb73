#include "samples/support/scratch_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace samples {

ScratchFolder::ScratchFolder() : before_(std::filesystem::current_path()) {
  std::string name = (std::filesystem::temp_directory_path() / "sample-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw std::filesystem::filesystem_error("cannot make a temporary folder", name,
                                            std::error_code(errno, std::generic_category()));
  }
  folder_ = name;
  std::filesystem::current_path(folder_);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::current_path(before_, ignored);
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace samples
