#include "libckpt/format/shard_index.h"

#include <sys/stat.h>

#include <algorithm>
#include <thread>
#include <unordered_set>

#include "libckpt/format/folder.h"
#include "libckpt/io/hidden_names.h"
#include "libckpt/io/json.h"
#include "libckpt/io/remote_name.h"
#include "libckpt/limits.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;
using core::quote;

constexpr int kMaxReadings = 100;

[[noreturn]] void throw_corrupt_index(const std::string& what) {
  throw Error(ErrorCode::corrupt, what);
}

/// A name from the index may only mean a file beside it.
void check_shard_name(std::string_view name, std::span<const std::string_view> suffixes) {
  auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::refused, "the index names the shard " + quote(name) + ", which " + why);
  };
  if (name.empty() || name == "." || name == "..") refuse("is not a file name");
  if (name.find_first_of("/\\") != std::string_view::npos) refuse("is not beside the index");
  if (name.find('\0') != std::string_view::npos) refuse("holds a NUL byte");
  bool known = std::any_of(suffixes.begin(), suffixes.end(), [&](auto suffix) { return name.ends_with(suffix); });
  if (!known) refuse("is not a " + std::string(suffixes.front()) + " file");
}

void read_weight_map(const JsonView& root, const OpenOptions& options, std::span<const std::string_view> suffixes,
                     ShardIndex& index) {
  if (!root.is(JsonView::Kind::object) || !root.has("weight_map")) throw_corrupt_index("the index has no weight_map");
  JsonView map = root.at("weight_map");
  if (!map.is(JsonView::Kind::object)) throw_corrupt_index("the weight_map of the index is not an object");
  std::unordered_set<std::string> seen;
  for (const auto& [tensor, file] : map.members()) {
    if (!file.is(JsonView::Kind::text))
      throw_corrupt_index("the index names a shard that is not text for tensor " + quote(tensor));
    check_shard_name(file.as_text(), suffixes);
    index.weight_map.emplace_back(tensor, file.as_text());
    if (seen.insert(std::string(file.as_text())).second) index.files.emplace_back(file.as_text());
  }
  if (index.weight_map.size() > options.limits.max_tensors) {
    throw Error(ErrorCode::refused, "the index lists more tensors than allowed");
  }
}

/// Sizes are bookkeeping of the index, everything else belongs to the checkpoint.
bool is_size_of_set(std::string_view key) {
  return key == "total_size" || key == "total_parameters";
}

void read_metadata(const JsonView& root, ShardIndex& index) {
  if (!root.has("metadata") || !root.at("metadata").is(JsonView::Kind::object)) return;
  for (const auto& [key, value] : root.at("metadata").members()) {
    if (!is_size_of_set(key) && value.is(JsonView::Kind::text)) index.metadata.emplace_back(key, value.as_text());
  }
}

/// True when the path still names the very file that is open, as it was: as long as it is open no other file can have
/// its number. Also true where that cannot be told.
bool stands(const Input& input) {
  std::optional<FileRange> range = input.file->file_range();
  struct stat opened {};
  struct stat named {};
  if (!range || ::fstat(range->fd, &opened) != 0 || ::stat(input.path.c_str(), &named) != 0) return true;
  return opened.st_dev == named.st_dev && opened.st_ino == named.st_ino && opened.st_size == named.st_size &&
         opened.st_mtim.tv_sec == named.st_mtim.tv_sec && opened.st_mtim.tv_nsec == named.st_mtim.tv_nsec;
}

/// One after the other each would cost a round trip.
void expect_shards(const std::filesystem::path& folder, const ShardIndex& index) {
  std::vector<std::string> names;
  for (const std::string& file : index.files) names.push_back(remote_sibling(folder, file));
  remote_opener().expect(names);
}

}  // namespace

bool is_shard_index(const Input& input, std::string& text) {
  std::string_view head = core::as_text(input.head);
  std::size_t first = head.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || head[first] != '{' || input.file->size() > kMaxIndexLook) return false;
  try {
    text = core::as_text(read_all(*input.file));
    return text.find("\"weight_map\"") != std::string::npos;
  } catch (const Error&) {
    return false;
  }
}

ShardIndex read_shard_index(const Input& input, const OpenOptions& options,
                            std::span<const std::string_view> suffixes) {
  if (input.file->size() > options.limits.max_json_bytes) {
    throw Error(ErrorCode::refused, "the index is " + core::format_size(input.file->size()) + " long where " +
                                        core::format_size(options.limits.max_json_bytes) + " are allowed");
  }
  JsonDocument json = JsonDocument::parse(read_all(*input.file),
                                          {.max_depth = options.limits.max_json_depth, .what = "the JSON index"});
  ShardIndex index;
  index.text = json.text();
  read_weight_map(json.root(), options, suffixes, index);
  read_metadata(json.root(), index);
  return index;
}

void require_shards(const std::filesystem::path& folder, const ShardIndex& index) {
  if (is_remote_name(folder)) return expect_shards(folder, index);
  std::vector<std::string> missing;
  for (const std::string& file : index.files) {
    std::error_code error;
    auto type = std::filesystem::symlink_status(folder / file, error).type();
    if (type == std::filesystem::file_type::not_found) missing.push_back(file);
  }
  if (missing.empty()) return;
  auto count = [&](const std::string& file) {
    return std::count_if(index.weight_map.begin(), index.weight_map.end(),
                         [&](const auto& item) { return item.second == file; });
  };
  auto tensors = count(missing[0]);
  std::string rest = missing.size() > 1 ? ", and " + std::to_string(missing.size() - 1) + " more of " : ", one of ";
  throw_corrupt_index(
      "the shard " + quote(missing[0]) + " is missing, although the index names it: " + std::to_string(tensors) +
      (tensors == 1 ? " tensor lies" : " tensors lie") + " in it" + rest + std::to_string(index.files.size()) +
      " shards; download or copy the missing files into the folder");
}

bool edit_goes_on(const std::filesystem::path& folder, const std::vector<std::string>& files) {
  return std::ranges::any_of(files, [&](const std::string& file) {
    struct stat status {};
    return ::lstat((folder / journal_name(file)).c_str(), &status) == 0;
  });
}

void read_until_it_stands(const Input& input, const std::function<void(const Input&)>& read,
                          const std::function<bool()>& edit_goes_on) {
  constexpr int kEditReadings = 3;  // once its journal is there, files read as before it
  int during_edits = 0;
  Input now = input;
  for (int reading = 0; reading < kMaxReadings; ++reading) {
    try {
      read(now);
      if (stands(now)) return;
    } catch (const Error&) {
      bool moving = edit_goes_on && edit_goes_on() && ++during_edits <= kEditReadings;
      if (!moving && stands(now)) throw;
    }
    std::this_thread::yield();
    now.file = open_file(input.path);
  }
  throw Error(ErrorCode::io, "the model is replaced again and again while it is read; wait for its writer to finish");
}

SourcePtr open_shard(const std::filesystem::path& folder, const std::string& name, const OpenOptions& options) {
  return open_part(folder, name, options, "the index");
}

}  // namespace ckpt::detail
