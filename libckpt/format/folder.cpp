#include "libckpt/format/folder.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "libckpt/format/folder_kind.h"
#include "libckpt/io/mapped_file.h"
#include "libckpt/io/remote_name.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
namespace fs = std::filesystem;

constexpr std::string_view kIndex = ".index.json";
constexpr std::string_view kMetadata = ".metadata";
constexpr std::string_view kParts = "index.ckpt-parts";
constexpr std::string_view kZeroPart = "_optim_states.pt";
constexpr std::string_view kRankPart = "_rng.pt";
constexpr std::string_view kPiece = ".distcp";
constexpr std::size_t kMaxNamed = 4;

/// Names of the folder's entries, sorted.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  if (error) throw Error(ErrorCode::io, "the folder cannot be read: " + error.message());
  std::sort(names.begin(), names.end());
  return names;
}

/// Files that are checkpoints by their names, for the message.
std::string checkpoints_among(const std::vector<std::string>& names) {
  constexpr std::array<std::string_view, 13> kKnown = {".safetensors", ".bin", ".pt",      ".pth",   ".ckpt",
                                                       ".npz",         ".h5",  ".gguf",    ".keras", ".onnx",
                                                       ".msgpack",     ".pt2", ".pdparams"};
  std::string list;
  std::size_t count = 0;
  for (const std::string& name : names) {
    bool known = std::any_of(kKnown.begin(), kKnown.end(), [&](auto end) { return name.ends_with(end); });
    if (known && ++count <= kMaxNamed) list += (count > 1 ? ", " : "") + core::quote(name);
  }
  if (count == 0) return names.empty() ? "; the folder is empty" : "";
  if (count > kMaxNamed) list += " and " + std::to_string(count - kMaxNamed) + " more";
  return "; it holds " + list + ": name the file that is meant";
}

/// Of Megatron-LM.
bool is_rank_file(const fs::path& file) {
  return file.native().ends_with(kRankPart) && file.parent_path().filename().native().starts_with("mp_rank_");
}

}  // namespace

fs::path resolve_folder(const fs::path& path) {
  if (is_remote_name(path)) return detail::remote_opener().file_of_folder(path.native());
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  std::vector<std::string> names = names_in(path);
  std::vector<std::string> found;
  bool pieces = false;
  for (const std::string& name : names) {
    if (name == kMetadata || name == kParts || (name.ends_with(kIndex) && name.size() > kIndex.size()))
      found.push_back(name);
    pieces = pieces || name.ends_with(kPiece);
  }
  if (found.size() == 1) return path / found[0];
  detail::FolderModel model = pieces ? detail::FolderModel() : detail::find_model(path, names);
  bool among = std::find(found.begin(), found.end(), model.file) != found.end();
  if (!model.file.empty() && (found.empty() || among)) return path / model.file;
  if (found.size() > 1) {
    for (std::string& name : found) name = core::quote(name);
    throw Error(ErrorCode::usage, "the folder holds several models: " + core::join(found, ", ") + "; name one of them");
  }
  if (pieces) {
    throw Error(ErrorCode::corrupt,
                "this is a distributed checkpoint whose save never finished: the .metadata file is missing");
  }
  if (!model.sentence.empty()) throw Error(ErrorCode::unsupported, model.sentence);
  throw Error(ErrorCode::unsupported,
              "the folder is not a checkpoint: it has neither an index (*.index.json) nor the "
              ".metadata of a distributed checkpoint" +
                  checkpoints_among(names));
}

fs::path named_file(const fs::path& path) {
  if (is_remote_name(path)) return path;
  try {
    fs::path file = resolve_folder(path);
    bool parts =
        file.filename() == kMetadata || file.filename() == kParts ||
        (file != path && (file.native().ends_with(kZeroPart) || is_rank_file(file) || detail::is_fsdp_part(file)));
    return parts ? path : file;
  } catch (const Error&) {
    return path;
  }
}

SourcePtr detail::open_part(const fs::path& folder, const std::string& name, const OpenOptions& options,
                            const std::string& named_by) {
  return reached(open_in_folder(folder, name, links_of(options), named_by), options.io, options.residency);
}

}  // namespace ckpt
