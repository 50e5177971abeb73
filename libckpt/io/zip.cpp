#include "libckpt/io/zip.h"

#include <algorithm>
#include <map>

#include "libckpt/io/cached_pages.h"
#include "libckpt/io/checked_source.h"
#include "libckpt/io/file_source.h"
#include "libckpt/io/inflate_source.h"
#include "libckpt/io/remote_name.h"
#include "libckpt/io/zip_directory.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
using detail::HeaderWindow;
using detail::ZipEnd;

/// A stored member that remembers its recorded checksum.
class StoredSource final : public ByteSource, public detail::MadeOf {
 public:
  StoredSource(SourcePtr range, std::uint32_t crc) : range_(std::move(range)), crc32_(crc) {}
  std::uint64_t size() const override { return range_->size(); }
  void read(std::uint64_t offset, MutableBytes out) const override { range_->read(offset, out); }
  Bytes memory() const override { return range_->memory(); }
  std::optional<FileRange> file_range() const override { return range_->file_range(); }
  void require_unchanged() const override { range_->require_unchanged(); }
  void visit_checked(const CheckedVisitor& see) const override { range_->visit_checked(see); }
  const ByteSource& made_of() const override { return *range_; }
  std::uint32_t recorded() const { return crc32_; }

 private:
  SourcePtr range_;
  std::uint32_t crc32_;
};

/// Explains the bytes between live records, from the end of the file to its start: only whole replaced records and
/// whole replaced directories are let pass.
class DeadSpace {
 public:
  DeadSpace(const ByteSource& file, const ZipReadOptions& options, std::uint64_t limit, const ZipArchive& archive)
      : file_(file), options_(options), window_(file, limit), archive_(archive) {}

  void explain(std::uint64_t begin, std::uint64_t end) {
    while (end > begin) end = explain_last(begin, end);
  }

  std::vector<ZipDeadRange> take() {
    std::reverse(found_.begin(), found_.end());
    return std::move(found_);
  }

 private:
  std::uint64_t explain_last(std::uint64_t begin, std::uint64_t end) {
    if (std::optional<ZipEnd> old = detail::try_zip_end_at(file_, begin, end)) return explain_directory(*old);
    auto next = records_.lower_bound(end);
    if (next != records_.begin()) {
      ZipMember& member = std::prev(next)->second;
      if (member.record_offset >= begin) {
        detail::read_zip_record(window_, member);
        if (member.record_end == end) return accept(member);
      }
    }
    std::optional<ZipMember> lone = detail::try_lone_record(window_, begin, end);
    if (lone) return accept(*lone);
    throw Error(ErrorCode::corrupt, core::format_count(end - begin) + " bytes at byte " + std::to_string(begin) +
                                        " belong to no record of the zip archive");
  }

  std::uint64_t explain_directory(const ZipEnd& old) {
    // Directories of one archive speak of the same records again and again.
    for (ZipMember& member : detail::read_zip_directory(file_, old, options_)) {
      std::uint64_t offset = member.record_offset;
      records_.insert_or_assign(offset, std::move(member));
    }
    if (records_.size() > options_.max_members) {
      throw Error(ErrorCode::refused, "the zip archive has more replaced records than allowed");
    }
    found_.push_back({old.directory_offset, old.end - old.directory_offset, "replaced directory"});
    return old.directory_offset;
  }

  std::uint64_t accept(const ZipMember& member) {
    if (archive_.find(member.name) == nullptr) {
      throw Error(ErrorCode::corrupt, "zip record " + core::quote(member.name) + " is not in the directory");
    }
    found_.push_back({member.record_offset, member.record_end - member.record_offset,
                      "replaced record " + core::quote(member.name)});
    return member.record_offset;
  }

  const ByteSource& file_;
  const ZipReadOptions& options_;
  HeaderWindow window_;
  const ZipArchive& archive_;
  std::map<std::uint64_t, ZipMember> records_;  ///< of replaced directories, by offset
  std::vector<ZipDeadRange> found_;
};

std::vector<ZipMember*> by_offset(std::vector<ZipMember>& members) {
  std::vector<ZipMember*> sorted;
  sorted.reserve(members.size());
  for (ZipMember& member : members) sorted.push_back(&member);
  std::sort(sorted.begin(), sorted.end(),
            [](const ZipMember* a, const ZipMember* b) { return a->record_offset < b->record_offset; });
  return sorted;
}

void check_expansion(const std::vector<ZipMember>& members, std::uint64_t file_size, const ZipReadOptions& options) {
  std::uint64_t inflated = 0;
  for (const ZipMember& member : members) {
    if (member.method == kZipDeflated) inflated = core::checked_add(inflated, member.size);
  }
  if (inflated <= options.expansion_floor || inflated / options.max_expansion <= file_size) return;
  throw Error(ErrorCode::refused, "the zip archive would inflate to " + core::format_size(inflated) + " from " +
                                      core::format_size(file_size) + ", more than " +
                                      std::to_string(options.max_expansion) + " times its size");
}

void check_overlap(const std::vector<ZipMember*>& sorted) {
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i]->record_offset >= sorted[i - 1]->record_end) continue;
    throw Error(ErrorCode::corrupt, "zip records " + core::quote(sorted[i - 1]->name) + " and " +
                                        core::quote(sorted[i]->name) + " overlap");
  }
}

void ask_for_headers(const ByteSource& file, const std::vector<ZipMember*>& sorted) {
  std::vector<std::uint64_t> offsets;
  for (const ZipMember* member : sorted) offsets.push_back(member->record_offset);
  detail::ask_for_pages_at(file, offsets);
}

/// What the directory alone tells of overlaps: a record is at least its header and its bytes.
void check_room(const std::vector<ZipMember*>& sorted) {
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    const ZipMember& before = *sorted[i - 1];
    std::uint64_t least = before.record_offset + detail::kLocalSize + before.name.size() + before.stored_size;
    if (least <= sorted[i]->record_offset) continue;
    throw Error(ErrorCode::corrupt,
                "zip records " + core::quote(before.name) + " and " + core::quote(sorted[i]->name) + " overlap");
  }
}

/// The stored bytes of a member whose own header was not read yet: that is done, and checked, before the first of them.
SourcePtr stored_far_away(const SourcePtr& file, const ZipMember& member, std::uint64_t directory) {
  return detail::opened_when_read(member.stored_size, [file, known = member, directory] {
    HeaderWindow window(*file, directory);
    ZipMember record = known;
    detail::read_zip_record(window, record);
    return slice(file, record.payload_offset, record.stored_size);
  });
}

}  // namespace

ZipArchive ZipArchive::open(SourcePtr file, const ZipReadOptions& options) {
  ZipArchive archive;
  archive.file_ = std::move(file);
  ZipEnd end = detail::find_zip_end(*archive.file_, options.accept_trailing);
  archive.members_ = detail::read_zip_directory(*archive.file_, end, options);
  archive.directory_offset_ = end.directory_offset;
  archive.directory_size_ = end.directory_size;
  archive.comment_ = end.comment;
  archive.trailing_ = archive.file_->size() - end.end;
  archive.index_.reserve(archive.members_.size());
  for (std::size_t i = 0; i < archive.members_.size(); ++i) {
    if (archive.index_.emplace(archive.members_[i].name, i).second) continue;
    throw Error(ErrorCode::corrupt, "zip record " + core::quote(archive.members_[i].name) + " is there twice");
  }
  check_expansion(archive.members_, archive.file_->size(), options);
  archive.check_records(options);
  return archive;
}

void ZipArchive::check_records(const ZipReadOptions& options) {
  std::vector<ZipMember*> sorted = by_offset(members_);
  if (detail::is_far(*file_)) return check_room(sorted);
  ask_for_headers(*file_, sorted);
  HeaderWindow window(*file_, directory_offset_);
  for (ZipMember* member : sorted) detail::read_zip_record(window, *member);
  check_overlap(sorted);
  DeadSpace dead(*file_, options, directory_offset_, *this);
  std::uint64_t end = directory_offset_;
  for (auto member = sorted.rbegin(); member != sorted.rend(); ++member) {
    dead.explain((*member)->record_end, end);
    end = (*member)->record_offset;
  }
  dead.explain(0, end);
  dead_ = dead.take();
}

const ZipMember* ZipArchive::find(std::string_view name) const {
  auto found = index_.find(name);
  return found == index_.end() ? nullptr : &members_[found->second];
}

core::ByteVector ZipArchive::read_directory() const {
  core::ByteVector bytes(directory_size_);
  file_->read(directory_offset_, bytes);
  return bytes;
}

SourcePtr ZipArchive::stored(const ZipMember& member) const {
  if (detail::is_far(*file_)) return stored_far_away(file_, member, directory_offset_);
  return slice(file_, member.payload_offset, member.stored_size);
}

SourcePtr ZipArchive::payload(const ZipMember& member) const {
  SourcePtr range = stored(member);
  if (member.method == kZipStored) return std::make_shared<StoredSource>(std::move(range), member.crc32);
  return inflated(std::move(range), {member.size, std::nullopt, "zip record " + core::quote(member.name)});
}

SourcePtr ZipArchive::payload_without_checksum(const ZipMember& member) const {
  return member.method == kZipStored ? stored(member) : payload(member);
}

std::optional<std::uint32_t> recorded_crc32(const ByteSource& source) {
  const auto* stored = dynamic_cast<const StoredSource*>(&unchecked(source));
  return stored == nullptr ? std::nullopt : std::optional(stored->recorded());
}

}  // namespace ckpt
