// Edits that leave the tensors where they lie: a new pickle names the old records of the storages and is appended, with
// a new directory behind it.

#include <algorithm>
#include <unordered_map>

#include "libckpt/format/torch/value_pickler.h"
#include "libckpt/format/torch_zip/detail.h"
#include "libckpt/format/torch_zip/keepable.h"
#include "libckpt/format/torch_zip/torch_zip.h"
#include "libckpt/io/checksum.h"
#include "libckpt/io/edit_journal.h"
#include "libckpt/io/zip.h"
#include "libckpt/limits.h"

namespace ckpt::detail {
namespace {

constexpr std::string_view kPickle = "data.pkl";
constexpr std::string_view kStorages = "data/";

/// The records of storages, and which of them a tree still needs.
class StorageRecords {
 public:
  explicit StorageRecords(const TorchZipDetail& detail) : fd_(fd_of(*detail.file)) {
    for (const ZipMember& member : detail.archive.zip().members()) {
      std::string_view name = detail.archive.inner_name(member);
      if (name.starts_with(kStorages)) records_[member.payload_offset] = {name.substr(kStorages.size()), member.size};
    }
    unused_ = records_.size();
  }

  /// "" for bytes that are not those of a record, and for those of one that has its key already.
  std::string take_key(const ByteSource& bytes) {
    std::optional<FileRange> range = bytes.file_range();
    auto found = range && range->fd == fd_ ? records_.find(range->offset) : records_.end();
    bool kept = found != records_.end() && found->second.size == range->length && !found->second.taken;
    all_kept_ = all_kept_ && kept;
    if (!kept) return "";
    found->second.taken = true;
    --unused_;
    in_order_ = in_order_ && range->offset >= last_;
    last_ = range->offset;
    return std::string(found->second.key);
  }

  /// True when the keys that were taken are those of all records, each once.
  bool are_all_taken() const { return all_kept_ && unused_ == 0; }
  /// True when they were taken in the order in which they lie in the file.
  bool are_in_order() const { return in_order_; }

 private:
  struct Record {
    std::string_view key;
    std::uint64_t size = 0;
    bool taken = false;
  };

  static int fd_of(const ByteSource& file) {
    std::optional<FileRange> range = file.file_range();
    return range ? range->fd : -1;
  }

  int fd_;
  std::unordered_map<std::uint64_t, Record> records_;  ///< by the offset of the payload
  std::size_t unused_ = 0;
  std::uint64_t last_ = 0;
  bool all_kept_ = true;
  bool in_order_ = true;
};

/// Records that a save writes as well, or that say nothing of the content.
bool is_known(std::string_view name) {
  constexpr std::string_view kKnown[] = {
      kPickle,           "version",           "byteorder", ".data/version", ".data/serialization_id",
      ".format_version", ".storage_alignment"};
  return std::ranges::find(kKnown, name) != std::end(kKnown) || name.starts_with(kStorages);
}

/// False for archives that a save would mend, shrink or clear of something: they are written whole.
bool may_append(const TorchArchive& archive) {
  constexpr std::uint64_t kLittle = 1 << 20;
  const ZipArchive& zip = archive.zip();
  std::uint64_t dead = 0;
  for (const ZipDeadRange& range : zip.dead_ranges()) dead += range.length;
  bool wasteful = dead > std::max(kLittle, zip.file_size() / 2);
  bool readable = zip.members().size() + zip.dead_ranges().size() < Limits().max_zip_members;
  bool plain = std::ranges::all_of(zip.members(), [&](const ZipMember& member) {
    return member.method == kZipStored && is_known(archive.inner_name(member));
  });
  return plain && readable && !wasteful && !archive.big_endian() && can_replace(zip, archive.member(kPickle));
}

/// PyTorch may be told to compute where storages lie from the order in which the pickle names them. It does so in
/// archives that have this record.
bool has_computable_offsets(const TorchArchive& archive) {
  return archive.find(".format_version") != nullptr;
}

}  // namespace

std::optional<FileEdit> edit_torch_zip(const Checkpoint& checkpoint, const SaveOptions& options) {
  const auto& detail = dynamic_cast<const TorchZipDetail&>(*checkpoint.detail);
  const TorchArchive& archive = detail.archive;
  if (!may_append(archive)) return std::nullopt;
  StorageRecords records(detail);
  const PickledTree tree = pickle_tree(keepable_tree(checkpoint.root).root,
                                       [&](const ByteSource& bytes, std::size_t) { return records.take_key(bytes); });
  bool in_order = records.are_in_order() || !has_computable_offsets(archive);
  if (!records.are_all_taken() || !in_order) return std::nullopt;
  const ZipMember& old = archive.member(kPickle);
  const core::ByteVector old_pickle = read_all(*archive.zip().payload(old));
  // So it is in archives without checksums, too: one that is right would say that all of them are.
  if (crc32(core::Bytes(old_pickle)) != old.crc32) return std::nullopt;
  warn_about_metadata(checkpoint, options);
  FileEdit edit{.old_size = detail.file->size(), .new_size = detail.file->size()};
  if (old_pickle == tree.pickle) return edit;
  edit.tail = replacement_end(archive.zip(), old, tree.pickle);
  edit.new_size += edit.tail.size();
  return edit;
}

/// The archive that it was before is all there, its end being that of a directory which another one replaced.
std::optional<FileEdit> cut_torch_zip(const Input& input) {
  const TorchArchive archive = TorchArchive::open(input.file, {});
  const ZipArchive& zip = archive.zip();
  const std::uint64_t begin = archive.member(kPickle).record_offset;
  bool last = std::ranges::all_of(zip.members(), [&](const ZipMember& other) { return other.record_offset <= begin; });
  bool behind_another = std::ranges::any_of(
      zip.dead_ranges(), [&](const ZipDeadRange& range) { return range.offset + range.length == begin; });
  if (!last || !behind_another || zip.trailing_bytes() > 0) return std::nullopt;
  const TorchArchive before = TorchArchive::open(slice(input.file, 0, begin), {});
  if (before.zip().members().size() != zip.members().size()) return std::nullopt;
  FileEdit edit{.old_size = zip.file_size(), .new_size = begin};
  edit.tail = read_all(*slice(input.file, begin, edit.old_size - begin));
  return edit;
}

}  // namespace ckpt::detail
