#include <algorithm>
#include <unordered_map>

#include "libckpt/format/npz/npz_archive.h"
#include "libckpt/format/save_file.h"
#include "libckpt/io/atomic_file.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::uint64_t kMaxName = 65'000;
constexpr std::uint64_t kPayloadAlignment = 64;
constexpr std::uint64_t kNameRoom = 32;  ///< bytes by which a name can grow in place
constexpr std::size_t kMaxRank = 64;     ///< NumPy 2; older ones stop at 32

/// The rules of zip.h about names that may leave the archive.
std::optional<Obstacle> archive_name_obstacle(const std::string& name) {
  if (name.size() > kMaxName) return name_obstacle(name, "of more than " + core::format_count(kMaxName) + " bytes");
  if (!core::is_utf8(name)) return name_obstacle(name, "that is not valid UTF-8");
  if (name.find('\0') != std::string::npos || name.find('\\') != std::string::npos) {
    return name_obstacle(name, "with a NUL byte or a backslash, which archives do not hold");
  }
  bool absolute = name.starts_with('/') || (name.size() > 1 && name[1] == ':');
  for (std::string_view part : core::split(name, '/')) absolute |= part == "..";
  if (!absolute) return std::nullopt;
  return name_obstacle(name, "that would be a path out of the archive");
}

/// Members of the file that entries come from. What has not changed is written as it was, with the checksum it had,
/// so that damage stays visible.
class OldMembers {
 public:
  explicit OldMembers(const Checkpoint& checkpoint)
      : detail_(std::dynamic_pointer_cast<const NpzDetail>(checkpoint.detail)) {
    if (detail_ == nullptr) return;
    for (const NpzMember& member : detail_->members) by_source_.emplace(member.entry->bytes.get(), &member);
  }

  SourcePtr file_for(const Entry& entry) const {
    auto found = by_source_.find(entry.bytes.get());
    if (found == by_source_.end()) return make_npy(entry);
    const NpzMember& member = *found->second;
    return holds_array(member, entry) && recorded_crc32(*member.file) ? member.file : make_npy(entry);
  }

 private:
  std::shared_ptr<const NpzDetail> detail_;
  std::unordered_map<const ByteSource*, const NpzMember*> by_source_;
};

}  // namespace

void warn_about_metadata(const Checkpoint& checkpoint, Report* report) {
  const std::pair<std::string, std::string> usual = {"format", "pt"};  // only says which library the tensors are for
  bool none = std::all_of(checkpoint.metadata.begin(), checkpoint.metadata.end(),
                          [&](const auto& pair) { return pair == usual; });
  if (report == nullptr || none) return;
  report->warnings.emplace_back("the file-level metadata has no place in a NumPy file and was left out");
}

bool holds_array(const NpzMember& member, const Entry& entry) {
  return member.entry->bytes == entry.bytes && member.entry->dtype == entry.dtype && member.entry->shape == entry.shape;
}

std::optional<Obstacle> npz_obstacle(const std::string& name, const Entry& entry) {
  if (npy_descr(entry.dtype).empty()) return dtype_obstacle(name, entry.dtype);
  if (entry.shape.size() > kMaxRank) return Obstacle{name, Obstacle::Kind::shape, "more than 64 dimensions"};
  return archive_name_obstacle(name);
}

std::vector<Obstacle> npz_obstacles(const Checkpoint& checkpoint, const SaveOptions&) {
  return flat_obstacles(checkpoint, npz_obstacle);
}

namespace {

/// The end record alone: NumPy knows an archive by its first four bytes, and no member means no other record.
SourcePtr empty_archive() {
  core::ByteVector end(22);
  std::memcpy(end.data(), "PK\x05\x06", 4);
  return memory_source(std::move(end));
}

void report_written(const SaveOptions& options, std::uint64_t bytes) {
  if (options.report == nullptr) return;
  options.report->bytes_written += bytes;
  options.report->rung = "rewrite";
}

}  // namespace

void write_npz(const Checkpoint& checkpoint, const std::filesystem::path& path, const SaveOptions& options) {
  std::vector<FlatEntry> entries = flat_entries(checkpoint, npz_obstacle);
  warn_about_losses(checkpoint, entries, options.report);
  warn_about_metadata(checkpoint, options.report);
  OldMembers old(checkpoint);
  std::vector<ZipItem> items;
  for (const FlatEntry& flat : entries)
    items.push_back({flat.name + std::string(kNpyExtension), old.file_for(*flat.entry)});
  if (items.empty()) {
    SourcePtr end = empty_archive();
    AtomicFile file(path, file_options(options, end->size()));
    file.write_from(*end);
    file.commit();
    return report_written(options, end->size());
  }
  ZipWriter writer(std::move(items), kPayloadAlignment, kNameRoom);
  std::uint64_t total = writer.total_size();
  AtomicFile file(path, file_options(options, total));
  writer.write(file, [&](std::uint64_t done) {
    if (options.progress) options.progress(done, total);
  });
  file.commit();
  report_written(options, total);
}

}  // namespace ckpt::detail
