#include "libckpt/run/step_removal.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "libckpt/format/format.h"
#include "libckpt/format/shard_index.h"
#include "libckpt/io/edit_journal.h"
#include "libckpt/io/file_ops.h"
#include "libckpt/io/file_tree.h"
#include "libckpt/io/hidden_names.h"
#include "libckpt/io/mentions.h"
#include "libckpt/io/replaced_file.h"
#include "libckpt/io/set_edit.h"
#include "libckpt/io/writer_lock.h"
#include "libckpt/run/step_name.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;
namespace fs = std::filesystem;

constexpr std::string_view kIndexEnd = ".index.json";

bool is_index(const StepFile& step) {
  return step.path.filename().string().ends_with(kIndexEnd);
}

/// What libraries for training put into the folder of a checkpoint beside the weights.
bool is_usual_beside(const std::string& name) {
  constexpr std::array<std::string_view, 4> kEnds = {".json", ".model", ".jinja", ".distcp"};
  constexpr std::array<std::string_view, 7> kNames = {"merges.txt", "vocab.txt", "README.md",         "scheduler.pkl",
                                                      "latest",     ".metadata", "commit_success.txt"};
  bool is_checkpoint = without_extension(name).size() < name.size();
  bool ends_so = std::any_of(kEnds.begin(), kEnds.end(), [&](std::string_view end) { return name.ends_with(end); });
  return is_checkpoint || ends_so || std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

/// The first thing in a folder that may be somebody's own, relative to it; "" for none.
std::string foreign_entry(const fs::path& folder, int depth) {
  constexpr int kDeepest = 3;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::string name = at->path().filename().string();
    if (at->is_symlink()) return name;
    if (at->is_directory()) {
      std::string below = depth < kDeepest ? foreign_entry(at->path(), depth + 1) : "...";
      if (!below.empty()) return name + "/" + below;
    } else if (!at->is_regular_file() || !is_usual_beside(name)) {
      return name;
    }
  }
  return error ? "?" : "";
}

std::vector<std::string> shards_of(const StepFile& step) {
  constexpr std::array<std::string_view, 2> kSuffixes = {".safetensors", ".bin"};
  std::vector<std::string> files = read_shard_index(open_input(step.path), {}, kSuffixes).files;
  std::erase_if(files, [](const std::string& name) { return !is_plain_name(name); });
  return files;
}

std::vector<fs::path> files_of(const StepFile& step) {
  std::vector<fs::path> files;
  std::error_code error;
  if (fs::is_directory(step.path, error)) {
    for (fs::recursive_directory_iterator at(step.path, error), end; !error && at != end; at.increment(error)) {
      files.push_back(at->path());
    }
    return files;
  }
  files.push_back(step.path);
  if (!is_index(step)) return files;
  for (const std::string& name : shards_of(step)) files.push_back(step.path.parent_path() / name);
  return files;
}

[[noreturn]] void throw_unremoved(int error) {
  throw_errno(error, "it cannot be removed");
}

/// Under a hidden name a folder is nobody's checkpoint any more; where this process ends before all of it is gone, the
/// next collection in the folder removes the rest (sweep_hidden_folders()).
void remove_folder(int folder, const std::string& name) {
  std::string hidden = temporary_name(name);
  int error = rename_file({folder, name}, {folder, hidden}, Taken::refuse);
  if (error == 0) error = remove_tree(folder, hidden);
  if (error != 0) throw_unremoved(error);
}

void remove_file(int folder, const std::string& name) {
  if (file_ops().unlinkat(folder, name.c_str(), 0) != 0) throw_unremoved(errno);
  drop_undo(folder, name);
}

/// Without its index a set is no checkpoint, and its shards are nobody's.
void remove_set(int folder, const StepFile& step) {
  std::vector<std::string> shards = shards_of(step);
  remove_file(folder, step.path.filename().string());
  IndexMentions others(step.path.parent_path());
  for (const std::string& shard : shards) {
    int error = others.holds(shard) ? 0 : remove_tree(folder, shard);
    if (error != 0 && error != ENOENT) throw_unremoved(error);
  }
}

}  // namespace

std::string why_it_stays(const StepFile& step) {
  try {
    detect_format(open_input(step.path));
    if (is_index(step)) shards_of(step);
  } catch (const Error& error) {
    return "nothing in it shows that it is a checkpoint: " + core::printable(error.message());
  }
  std::error_code gone;
  std::string foreign = fs::is_directory(step.path, gone) ? foreign_entry(step.path, 0) : "";
  return foreign.empty() ? "" : "it holds " + core::quote(foreign) + ", which is no usual part of a checkpoint";
}

std::uint64_t removable_bytes(const StepFile& step) {
  std::uint64_t bytes = 0;
  for (const fs::path& file : files_of(step)) {
    struct stat status {};
    bool is_only_name = ::lstat(file.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1;
    if (is_only_name) bytes += static_cast<std::uint64_t>(status.st_size);
  }
  return bytes;
}

void make_durable(int folder, const StepFile& step) {
  core::with_context(step.path.string(), [&] {
    int error = sync_tree(folder, step.path.filename().string());
    if (error == 0 && is_index(step)) {
      for (const std::string& shard : shards_of(step)) error = error != 0 ? error : sync_tree(folder, shard);
    }
    if (error != 0) throw_errno(error, "cannot make it durable (fsync), so nothing was removed");
  });
}

void remove_step(int folder, const StepFile& step) {
  core::with_context(step.path.string(), [&] {
    std::string name = step.path.filename().string();
    WriterLock lock(folder, name);
    if (state_of(step.path) != step.seen) throw Error(ErrorCode::io, "it was changed meanwhile, and stays");
    std::error_code gone;
    if (fs::is_directory(step.path, gone)) return remove_folder(folder, name);
    settle_edit(folder, name);  // its record goes
    if (is_index(step)) settle_members(folder, name);
    is_index(step) ? remove_set(folder, step) : remove_file(folder, name);
  });
}

}  // namespace ckpt::detail
