#include "libckpt/format/salvage.h"

#include <algorithm>
#include <unordered_map>

#include "libckpt/format/npz/npy_array.h"
#include "libckpt/format/npz/npy_header.h"
#include "libckpt/format/safetensors/safetensors.h"
#include "libckpt/format/torch/byte_swap.h"
#include "libckpt/format/torch/pickle_reader.h"
#include "libckpt/format/torch/pickle_value.h"
#include "libckpt/format/torch/rebuild.h"
#include "libckpt/io/checked_source.h"
#include "libckpt/io/header_values.h"
#include "libckpt/io/inflate_source.h"
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

/// The bytes of a complete record, compared with its CRC-32 before the first of them is handed out.
SourcePtr record_bytes(const SourcePtr& file, const FoundRecord& record) {
  SourcePtr stored = slice(file, record.payload_offset, record.stored_size);
  if (record.method == kZipStored) {
    return checked(std::move(stored), *record.crc32,
                   {.subject = "the record " + core::quote(record.name) + " is damaged", .before_use = true});
  }
  return inflated(std::move(stored), {record.size, record.crc32, "zip record " + core::quote(record.name)});
}

/// Storages of an archive of which some are missing.
class FoundStorages final : public StorageProvider {
 public:
  FoundStorages(SourcePtr file, const std::vector<FoundRecord>& records, std::string root, bool big_endian)
      : file_(std::move(file)), root_(std::move(root)), big_endian_(big_endian) {
    for (const FoundRecord& record : records) records_.emplace(record.name, &record);
  }

  std::shared_ptr<const Storage> provide(const StorageRequest& request) override {
    std::shared_ptr<const Storage>& known = known_[request.key];
    if (known == nullptr) {
      SourcePtr bytes = bytes_of(request);
      if (big_endian_) bytes = byte_swapped(std::move(bytes), swap_width(request.dtype));
      core::DType dtype = request.untyped ? core::DType::u8 : request.dtype;
      known = std::make_shared<const Storage>(Storage{dtype, std::move(bytes), request.location});
    } else if (known->bytes->size() != request.bytes) {
      throw Error(ErrorCode::corrupt, "the storage " + core::quote("data/" + request.key) + " is used with two sizes");
    }
    return known;
  }

 private:
  SourcePtr bytes_of(const StorageRequest& request) const {
    std::string name = "data/" + request.key;
    auto at = records_.find(root_ + name);
    std::string subject = "the record " + core::quote(name);
    if (at == records_.end()) return missing_source(request.bytes, subject + " is not in the file, which is cut");
    const FoundRecord& record = *at->second;
    if (!record.complete()) return missing_source(request.bytes, subject + " is cut or its checksum is");
    if (record.size != request.bytes) return missing_source(request.bytes, subject + " is of another size");
    return record_bytes(file_, record);
  }

  SourcePtr file_;
  std::string root_;
  bool big_endian_;
  std::unordered_map<std::string, const FoundRecord*> records_;
  std::unordered_map<std::string, std::shared_ptr<const Storage>> known_;
};

const FoundRecord* find_record(const std::vector<FoundRecord>& records, const std::string& name) {
  for (const FoundRecord& record : records) {
    if (record.name == name) return &record;
  }
  return nullptr;
}

Salvage salvage_torch(const SourcePtr& file, const std::vector<FoundRecord>& records, const RescueOptions& options) {
  constexpr std::uint64_t kSmall = 64;
  std::string root = records.front().name.substr(0, records.front().name.find('/') + 1);
  const FoundRecord* pickle = find_record(records, root + "data.pkl");
  if (pickle == nullptr || !pickle->complete()) {
    throw Error(ErrorCode::corrupt, "the record 'data.pkl', which says what the tensors are, is cut or missing");
  }
  if (pickle->size > options.limits.max_pickle_bytes) throw Error(ErrorCode::refused, "data.pkl is over the limit");
  const FoundRecord* order = find_record(records, root + "byteorder");
  bool big = order != nullptr && order->complete() && order->size < kSmall &&
             core::as_text(read_all(*record_bytes(file, *order))) == "big";
  OpenOptions open;
  open.limits = options.limits;
  PickleGraph graph = read_pickle(read_all(*record_bytes(file, *pickle)), options.limits);
  FoundStorages storages(file, records, root, big);
  Salvage out;
  out.format = "torch-zip";
  out.damaged = true;
  out.checkpoint.root = to_value(graph, storages, open, SymbolCheck::refuse);
  return out;
}

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
  std::vector<FoundRecord> records = find_zip_records(*input.file, zip);
  if (records.empty()) return std::nullopt;
  if (records.front().name.find('/') != std::string::npos) return salvage_torch(input.file, records, options);
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
