#include "libckpt/format/safetensors/safetensors.h"

#include <algorithm>
#include <set>

#include "libckpt/format/safetensors/detail.h"
#include "libckpt/format/safetensors/plan.h"
#include "libckpt/format/safetensors/present_files.h"
#include "libckpt/format/safetensors/shards.h"
#include "libckpt/format/save_file.h"
#include "libckpt/format/shard_index.h"
#include "libckpt/io/atomic_file.h"
#include "libckpt/io/checksum.h"
#include "libckpt/io/edit_journal.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::string_view kExtensions[] = {".safetensors"};
constexpr std::string_view kIndexExtensions[] = {".safetensors.index.json"};
constexpr std::string_view kMethod = "structure, and that every byte can be read";

/// A length and the begin of a JSON object. Also true for files that are cut off, so that the message can say so.
bool detect_file(const Input& input) {
  std::string_view head = core::as_text(input.head);
  if (head.size() <= kLengthBytes) return false;
  auto length = core::load_le<std::uint64_t>(input.head.data());
  std::string_view text = head.substr(kLengthBytes);
  auto top = static_cast<unsigned char>(head[kLengthBytes - 1]);
  bool plain_text = top >= 0x20 && top < 0x7f;  // a length would have to be astronomical
  if (!plain_text && (text.starts_with("{\"") || text.starts_with("{}"))) return true;
  std::size_t first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  bool json = first != std::string_view::npos && (text[first] == '{' || text[first] == '[');
  return json && length > 0 && length <= input.file->size() - kLengthBytes;
}

/// JSON with a weight_map; what it names must not be only files of another format.
bool detect_index(const Input& input) {
  std::string text;
  if (!is_shard_index(input, text)) return false;
  bool names_ours = text.find(".safetensors\"") != std::string::npos;
  bool names_others = text.find(".bin\"") != std::string::npos || text.find(".pt\"") != std::string::npos ||
                      text.find(".pth\"") != std::string::npos;
  return names_ours || !names_others;
}

std::vector<Obstacle> obstacles(const Checkpoint& checkpoint, const SaveOptions&) {
  return find_obstacles(checkpoint);
}

/// What is lost although it is no obstacle, because it says nothing about the values.
void warn_about_locations(const FlatState& state, const SaveOptions& options) {
  if (options.report == nullptr) return;
  std::set<std::string> locations;
  for (const FlatTensor& tensor : state.tensors) locations.insert(tensor.entry->location);
  locations.erase("cpu");
  if (locations.empty()) return;
  options.report->warnings.push_back("device tags (" + *locations.begin() + (locations.size() > 1 ? ", ..." : "") +
                                     ") are not kept: the format has none");
}

/// Names that a new file does not have because another tensor of it is the same; reading brings them back.
void warn_about_ties(const Checkpoint& checkpoint, const FlatState& state, const SaveOptions& options) {
  constexpr std::size_t kMaxListed = 5;
  bool known = dynamic_cast<const SafetensorsDetail*>(checkpoint.detail.get()) != nullptr ||
               dynamic_cast<const SafetensorsShards*>(checkpoint.detail.get()) != nullptr;
  const auto& tied = state.extra.tied;
  if (options.report == nullptr || known || tied.empty()) return;
  std::vector<std::string> list;
  for (const auto& [dropped, kept] : tied) {
    if (list.size() < kMaxListed) list.push_back(core::quote(dropped) + " (tied to " + core::quote(kept) + ")");
  }
  std::string rest =
      tied.size() > kMaxListed ? " and " + core::format_count(tied.size() - kMaxListed) + " more" : std::string();
  options.report->warnings.push_back("tied tensors are stored once, without the names " + core::join(list, ", ") +
                                     rest + "; load the file with safetensors.torch.load_model");
}

SafetensorsPlan plan_one(const Checkpoint& checkpoint, FlatState state, const SaveOptions& options) {
  auto old = std::dynamic_pointer_cast<const SafetensorsDetail>(checkpoint.detail);
  TextPairs metadata = plan_metadata(checkpoint, state.extra, old ? &old->header.metadata : nullptr);
  return {std::move(state.tensors), metadata, old, options.slack};
}

void write_one(const Checkpoint& checkpoint, FlatState state, const std::filesystem::path& path,
               const SaveOptions& options) {
  SafetensorsPlan plan = plan_one(checkpoint, std::move(state), options);
  std::uint64_t total = plan.total_size();
  AtomicFile file(path, file_options(options, total));
  plan.write(file, [&](std::uint64_t done) {
    if (options.progress) options.progress(done, total);
  });
  file.commit();
  if (options.report == nullptr) return;
  options.report->bytes_written += total;
  options.report->rung = "rewrite";
}

bool becomes_one_file(const FlatState& state, const SaveOptions& options) {
  bool fits = options.max_shard_size == 0 || tensor_bytes(state.tensors) <= options.max_shard_size;
  return fits && !wants_shards(options);
}

void write_file(const Checkpoint& checkpoint, const std::filesystem::path& path, const SaveOptions& options) {
  FlatState state = flatten(checkpoint);
  warn_about_locations(state, options);
  warn_about_ties(checkpoint, state, options);
  if (becomes_one_file(state, options)) {
    return write_one(checkpoint, std::move(state), path, options);
  }
  std::filesystem::path index = path.string() + ".index.json";
  write_shards(checkpoint, std::move(state), index, options);
}

/// Growing a file in front (by FALLOC_FL_INSERT_RANGE) is no way: file systems shift extents step by step, and nothing
/// takes a power cut in the midst of that back. So tensors at the front make room, by an edit like any other.
std::optional<FileEdit> edit_header(const Checkpoint& checkpoint, const SaveOptions& options) {
  FlatState state = flatten(checkpoint);
  if (!becomes_one_file(state, options)) return std::nullopt;
  std::optional<FileEdit> edit = plan_one(checkpoint, state, options).edit();
  if (!edit) return std::nullopt;
  warn_about_locations(state, options);
  warn_about_ties(checkpoint, state, options);
  return edit;
}

void write_index(const Checkpoint& checkpoint, const std::filesystem::path& path, const SaveOptions& options) {
  FlatState state = flatten(checkpoint);
  warn_about_locations(state, options);
  warn_about_ties(checkpoint, state, options);
  write_shards(checkpoint, std::move(state), path, options);
}

std::optional<SetEdit> edit_shards(const Checkpoint& checkpoint, const std::filesystem::path& index,
                                   const SaveOptions& options) {
  FlatState state = flatten(checkpoint);
  require_all_listed(checkpoint, index);
  std::optional<SetEdit> edit = plan_headers(checkpoint, state, index, options);
  if (!edit) return std::nullopt;
  warn_about_locations(state, options);
  warn_about_ties(checkpoint, state, options);
  return edit;
}

void read_through(const SafetensorsDetail& detail, VerifyResult& result, const Progress& progress,
                  std::uint64_t total) {
  for (const SourcePtr& source : detail.sources) {
    for_each_part(*source, [&](Bytes part) {
      result.bytes_checked += part.size();
      if (progress) progress(result.bytes_checked, total);
    });
    ++result.tensors_checked;
  }
}

VerifyResult verify_file(const Input& input, const OpenOptions& options, const Progress& progress) {
  Checkpoint checkpoint = read_safetensors(input, options);
  VerifyResult result;
  result.method = kMethod;
  read_through(dynamic_cast<const SafetensorsDetail&>(*checkpoint.detail), result, progress, input.file->size());
  return result;
}

VerifyResult verify_index(const Input& input, const OpenOptions& options, const Progress& progress) {
  Checkpoint checkpoint = read_safetensors_index(input, options);
  const auto& shards = dynamic_cast<const SafetensorsShards&>(*checkpoint.detail);
  VerifyResult result;
  result.method = kMethod;
  result.damage = find_unlisted_tensors(shards);
  std::uint64_t total = 0;
  for (const SafetensorsShard& shard : shards.shards) total += shard.detail->file->size();
  for (const SafetensorsShard& shard : shards.shards) read_through(*shard.detail, result, progress, total);
  return result;
}

}  // namespace

const Format kSafetensors = {
    .name = "safetensors",
    .title = "safetensors file",
    .extensions = kExtensions,
    .detect = detect_file,
    .read = read_safetensors,
    .obstacles = obstacles,
    .write = write_file,
    .edit = edit_header,
    .verify = verify_file,
    .splits = true,
    .python = PythonReader::safetensors,
    .edited_part = "header",
};

const Format kSafetensorsSharded = {
    .name = "safetensors-sharded",
    .title = "sharded safetensors checkpoint",
    .extensions = kIndexExtensions,
    .detect = detect_index,
    .read = read_safetensors_index,
    .obstacles = obstacles,
    .write = write_index,
    .edit_set = edit_shards,
    .verify = verify_index,
    .splits = true,
    .several_files = true,
    .edited_part = "headers and index",
    .one_file_as = "safetensors",
};

}  // namespace ckpt::detail
