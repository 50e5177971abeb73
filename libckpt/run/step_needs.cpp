#include "libckpt/run/step_needs.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "libckpt/format/shared_tensors.h"
#include "libckpt/io/file_ops.h"
#include "libckpt/io/file_tree.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {

namespace fs = std::filesystem;

std::vector<StepNeed> needs_of(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    if (at->is_regular_file(gone)) files.push_back(at->path());
  }
  if (error) throw core::Error(core::ErrorCode::io, "the folder cannot be read: " + error.message());
  std::sort(files.begin(), files.end());
  std::vector<StepNeed> needs;
  for (const fs::path& file : files) {
    for (const NeededFile& needed : needed_files(file)) {
      needs.push_back({file.filename().string(), needed.name, needed.tensors, needed.bytes});
    }
  }
  return needs;
}

std::string text_of(const StepNeed& need) {
  return core::quote(need.file) + " needs " + core::format_count(need.tensors) + " of its tensors, " +
         core::format_size(need.bytes);
}

void make_files_durable(const fs::path& folder, const std::string& name) {
  Fd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) throw_errno(errno, "cannot open the folder " + core::quote(folder.string()));
  std::vector<std::string> names = {name};
  for (const NeededFile& needed : needed_files(folder / name)) names.push_back(needed.name);
  for (const std::string& each : names) {
    std::error_code error;
    if (!fs::exists(folder / each, error)) continue;  // it is not shared from
    int failed = sync_tree(opened.get(), each);
    if (failed != 0) throw_errno(failed, "cannot make " + core::quote(each) + " durable (fsync), so nothing was saved");
  }
  int failed = sync_folder(opened.get());
  if (failed != 0) throw_errno(failed, "cannot make the folder durable (fsync), so nothing was saved");
}

}  // namespace ckpt::detail
