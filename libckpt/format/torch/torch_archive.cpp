#include "libckpt/format/torch/torch_archive.h"

#include <algorithm>
#include <charconv>

#include "libckpt/format/torch/byte_swap.h"
#include "libckpt/format/torch/cut_archive.h"
#include "libckpt/io/checked_source.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::uint64_t kMaxSmallRecord = 64;
constexpr int kNewestVersion = 10;

ZipReadOptions zip_options(const OpenOptions& options) {
  ZipReadOptions out;
  out.max_members = options.limits.max_zip_members;
  out.max_name = options.limits.max_name;
  out.accept_trailing = options.lenient;
  out.max_expansion = options.limits.max_expansion;
  out.expansion_floor = options.limits.expansion_floor;
  return out;
}

bool is_plain_key(std::string_view key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), [](unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
  });
}

/// Where the archive was cut, the sentence says what is left of it.
ZipArchive open_zip(const SourcePtr& file, const OpenOptions& options) {
  try {
    return ZipArchive::open(file, zip_options(options));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::corrupt) {
      if (std::optional<HintedError> cut = cut_archive_error(file, options.limits)) throw *cut;
    }
    throw;
  }
}

void relax(const OpenOptions& options, const std::string& text) {
  if (options.report != nullptr) options.report->relaxations.push_back(text);
}

}  // namespace

TorchArchive TorchArchive::open(const SourcePtr& file, const OpenOptions& options, ArchiveKind kind) {
  TorchArchive archive(open_zip(file, options));
  if (std::uint64_t trailing = archive.zip_.trailing_bytes(); trailing > 0) {
    relax(options, core::format_count(trailing) + " bytes lie after the end of the zip archive");
  }
  archive.find_root();
  archive.kind_ = kind;
  if (kind == ArchiveKind::checkpoint && archive.find("constants.pkl") != nullptr) {
    throw Error(ErrorCode::unsupported, "this is a TorchScript archive (a program with its weights), not a checkpoint");
  }
  archive.check_version();
  archive.read_byte_order();
  archive.look_for_checksums();
  return archive;
}

/// PyTorch takes the folder of the first directory entry for the root of all records.
void TorchArchive::find_root() {
  if (zip_.members().empty()) throw Error(ErrorCode::corrupt, "the archive is empty");
  const std::string& first = zip_.members().front().name;
  std::size_t slash = first.find('/');
  if (slash == std::string::npos) {
    throw Error(ErrorCode::corrupt,
                "the archive has " + core::quote(first) + " at its top where PyTorch keeps all records in one folder");
  }
  root_ = first.substr(0, slash + 1);
  for (const ZipMember& m : zip_.members()) {
    if (m.name.starts_with(root_)) continue;
    throw Error(ErrorCode::corrupt,
                "the archive has " + core::quote(m.name) + " outside of its folder " + core::quote(root_));
  }
}

std::string_view TorchArchive::inner_name(const ZipMember& member) const {
  return std::string_view(member.name).substr(root_.size());
}

bool TorchArchive::is_program(std::string_view inner_name) const {
  if (kind_ != ArchiveKind::script) return false;
  for (std::string_view part :
       {"code/", "constants/", "extra/", "constants.pkl", "bytecode.pkl", "mobile_debug_handles"}) {
    if (inner_name.starts_with(part)) return true;
  }
  return false;
}

const ZipMember* TorchArchive::find(std::string_view name) const {
  return zip_.find(root_ + std::string(name));
}

const ZipMember& TorchArchive::member(std::string_view name) const {
  if (const ZipMember* found = find(name)) return *found;
  throw Error(ErrorCode::corrupt, "the archive has no record " + core::quote(name));
}

std::string TorchArchive::small_text(const ZipMember& member) const {
  if (member.size > kMaxSmallRecord) {
    throw Error(ErrorCode::corrupt, "the record " + core::quote(inner_name(member)) + " holds " +
                                        core::format_size(member.size) + " where a few bytes are expected");
  }
  return std::string(core::as_text(read_all(*zip_.payload(member))));
}

void TorchArchive::check_version() const {
  const ZipMember* found = find(".data/version");
  if (found == nullptr) found = &member("version");
  std::string text = small_text(*found);
  std::string_view digits = text;
  while (digits.ends_with('\n') || digits.ends_with('\r')) digits.remove_suffix(1);
  int version = 0;
  auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), version);
  if (digits.empty() || code != std::errc() || end != digits.data() + digits.size()) {
    throw Error(ErrorCode::corrupt,
                "the record 'version' holds " + core::quote(text, 40) + " where a number is needed");
  }
  if (version < 1 || version > kNewestVersion) {
    throw Error(ErrorCode::unsupported, "the archive is of version " + std::to_string(version) + " where 1 to " +
                                            std::to_string(kNewestVersion) + " are known");
  }
}

/// PyTorch can be told to write none; then not even the records that are the same in every file have theirs.
void TorchArchive::look_for_checksums() {
  auto matches = [&](std::string_view name) {
    const ZipMember* record = find(name);
    return record != nullptr && record->method == kZipStored && crc32(*zip_.payload(*record)) == record->crc32;
  };
  has_checksums_ = matches("version") || matches(".data/version") || matches("byteorder") || matches("data.pkl");
}

void TorchArchive::read_byte_order() {
  const ZipMember* record = find("byteorder");
  if (record == nullptr) return;
  std::string text = small_text(*record);
  if (text != "little" && text != "big") {
    throw Error(ErrorCode::corrupt,
                "the record 'byteorder' holds " + core::quote(text, 40) + " where 'little' or 'big' is needed");
  }
  big_endian_ = text == "big";
}

void ArchiveStorages::check_agreement(const Known& known, const StorageRequest& request) const {
  const StorageRequest& first = known.request;
  std::string subject = "the storage " + core::quote("data/" + request.key);
  if (first.location != request.location) {
    throw Error(ErrorCode::unsupported, subject + " is said to be on " + core::quote(first.location) + " and on " +
                                            core::quote(request.location));
  }
  bool same_kind = first.untyped == request.untyped && first.bytes == request.bytes;
  bool same_type = first.dtype == request.dtype || (request.untyped && !archive_.big_endian());
  if (same_kind && same_type) return;
  throw Error(ErrorCode::unsupported, subject + " is used as " + std::string(core::name(first.dtype)) + " and as " +
                                          std::string(core::name(request.dtype)));
}

std::shared_ptr<const Storage> ArchiveStorages::provide(const StorageRequest& request) {
  if (request.has_view_part) {
    throw Error(ErrorCode::corrupt, "the persistent id of the storage " + core::quote(request.key) +
                                        " has six parts where zip files have five; PyTorch does not read it");
  }
  if (auto found = known_.find(request.key); found != known_.end()) {
    check_agreement(found->second, request);
    return found->second.storage;
  }
  if (!is_plain_key(request.key)) {
    throw Error(ErrorCode::refused,
                "a storage has the key " + core::quote(request.key) + ", which is not a plain name");
  }
  auto storage = std::make_shared<Storage>();
  storage->dtype = request.untyped ? core::DType::u8 : request.dtype;
  storage->location = request.location;
  storage->bytes = payload(request);
  known_.emplace(request.key, Known{request, storage});
  return storage;
}

SourcePtr ArchiveStorages::payload(const StorageRequest& request) const {
  std::string name = "data/" + request.key;
  const ZipMember& member = archive_.member(name);
  bool longer = member.size > request.bytes;
  if (member.size < request.bytes || (longer && !options_.lenient)) {
    throw Error(ErrorCode::corrupt, "the storage " + core::quote(name) + " holds " + core::format_size(member.size) +
                                        " where its elements need " + core::format_size(request.bytes));
  }
  SourcePtr source =
      archive_.has_checksums() ? archive_.zip().payload(member) : archive_.zip().payload_without_checksum(member);
  if (archive_.has_checksums()) {
    source = checked(std::move(source), member.crc32,
                     {.subject = "the record " + core::quote(name) + " is damaged",
                      .before_use = options_.check_hashes,
                      .lenient = options_.lenient && !options_.check_hashes});
  }
  if (longer) {
    relax(options_, "the storage " + core::quote(name) + " is " + core::format_size(member.size - request.bytes) +
                        " longer than its elements need");
    source = slice(std::move(source), 0, request.bytes);
  }
  return archive_.big_endian() ? byte_swapped(std::move(source), swap_width(request.dtype)) : source;
}

std::vector<std::string> ArchiveStorages::unused() const {
  std::vector<std::string> names;
  for (const ZipMember& member : archive_.zip().members()) {
    std::string_view inner = archive_.inner_name(member);
    if (!inner.starts_with("data/") || member.is_folder()) continue;
    if (!known_.contains(std::string(inner.substr(5)))) names.emplace_back(inner);
  }
  return names;
}

}  // namespace ckpt
