#include "libckpt/format/salvage.h"

#include <algorithm>

#include "libckpt/format/npz/npy_array.h"
#include "libckpt/format/npz/npy_header.h"
#include "libckpt/format/safetensors/safetensors.h"
#include "libckpt/format/torch/cut_archive.h"
#include "libckpt/io/header_values.h"
#include "libckpt/io/json.h"
#include "libckpt/io/patched_source.h"
#include "libckpt/io/zip_salvage.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::string_view kArray = ".npy";

std::string array_name(const std::string& record) {
  return record.substr(0, record.size() - kArray.size());
}

Salvage salvage_npz(const SourcePtr& file, const std::vector<FoundRecord>& records, const RescueOptions& options) {
  Salvage out;
  out.format = "npz";
  out.damaged = true;
  Dict dict;
  for (const FoundRecord& record : records) {
    if (!record.name.ends_with(kArray)) continue;
    std::string name = array_name(record.name);
    if (!record.complete()) {
      out.lost.push_back({name, "its record is cut"});
      continue;
    }
    try {
      SourcePtr bytes = record_bytes(file, record);
      NpyArray array = array_behind(read_npy_header(*bytes, options.limits.max_rank), bytes);
      dict.items.emplace_back(Value::text(name), Value::tensor(array.entry));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::io) throw;
      out.lost.push_back({name, error.message()});
    }
  }
  out.checkpoint.root = Value::dict(std::move(dict));
  out.lost.push_back({"what may have come after", "nothing says what it was: the directory of the archive is damaged"});
  return out;
}

}  // namespace

std::optional<Salvage> salvage_zip(const Input& input, const RescueOptions& options) {
  constexpr std::string_view kZipMagic = "PK\x03\x04";
  if (!core::as_text(input.head).starts_with(kZipMagic)) return std::nullopt;
  ZipReadOptions zip;
  zip.max_members = options.limits.max_zip_members;
  zip.max_name = options.limits.max_name;
  if (std::optional<CutArchive> cut = read_cut_archive(input.file, options.limits)) {
    Salvage out;
    out.format = "torch-zip";
    out.damaged = true;
    out.checkpoint.root = std::move(cut->root);
    return out;
  }
  std::vector<FoundRecord> records = find_zip_records(*input.file, zip);
  bool arrays = std::any_of(records.begin(), records.end(), [](const auto& r) { return r.name.ends_with(kArray); });
  return arrays ? std::optional(salvage_npz(input.file, records, options)) : std::nullopt;
}

std::optional<Salvage> salvage_safetensors(const Input& input, const RescueOptions& options,
                                           const std::filesystem::path& scratch) {
  constexpr std::uint64_t kLength = 8;
  std::uint64_t size = input.file->size();
  if (size < kLength + 2 || input.head[kLength] != std::byte{'{'}) return std::nullopt;
  auto header = core::load_le<std::uint64_t>(input.head.data());
  if (header > options.limits.max_safetensors_header || header > size - kLength) return std::nullopt;
  core::ByteVector text(header);
  input.file->read(kLength, text);
  std::uint64_t end = 0;
  check_header_values(core::as_text(text), options.limits);
  JsonDocument document = JsonDocument::parse(core::as_text(text));
  if (!document.root().is(JsonView::Kind::object)) return std::nullopt;
  for (const auto& [name, item] : document.root().members()) {
    if (name == "__metadata__" || !item.has("data_offsets")) continue;
    JsonView offsets = item.at("data_offsets");
    bool pair = offsets.is(JsonView::Kind::array) && offsets.items().size() == 2 && offsets.items()[1].is_count();
    if (!pair) return std::nullopt;
    end = std::max(end, offsets.items()[1].as_unsigned());
  }
  std::uint64_t whole = core::checked_add(kLength + header, end);
  if (size >= whole) return std::nullopt;
  Input padded = input;
  padded.file = std::make_shared<PatchedSource>(input.file, whole, scratch);
  OpenOptions open;
  open.limits = options.limits;
  return Salvage{kSafetensors.read(padded, open), "safetensors", false, {}, true};
}

}  // namespace ckpt::detail
