#include "libckpt/format/dcp/dcp.h"

#include <algorithm>
#include <array>
#include <map>

#include "libckpt/format/dcp/data_files.h"
#include "libckpt/format/dcp/flatten.h"
#include "libckpt/format/torch/archive_check.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::string_view kModule = "torch.distributed.checkpoint.metadata";
constexpr std::size_t kFirstSymbol = 64;  ///< the class of the whole object is the first thing in the pickle

bool detect(const Input& input) {
  std::string_view head = core::as_text(input.head);
  if (head.starts_with('\x80') && input.path.filename() == ".metadata") return true;
  return head.starts_with('\x80') && head.substr(0, kFirstSymbol + kModule.size()).find(kModule) != head.npos;
}

std::vector<DcpPlace> places_of(const DcpMetadata& metadata) {
  std::vector<DcpPlace> places;
  for (const DcpItem& item : metadata.items) {
    if (item.place) places.push_back(*item.place);
    for (std::size_t i = 0; i < item.chunks.size(); ++i) {
      if (std::optional<DcpPlace> place = item.chunks.place(i)) places.push_back(std::move(*place));
    }
  }
  return places;
}

/// Nothing but what aligns the next item, or the head that we write.
bool is_padding(const ByteSource& file, std::uint64_t begin, std::uint64_t end) {
  constexpr std::uint64_t kMostPadding = 4096;
  if (begin == 0 && end >= kPartHead && !save_id_in(file).empty()) begin = kPartHead;
  if (end - begin >= kMostPadding) return false;
  core::ByteVector bytes(end - begin);
  file.read(begin, bytes);
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte(0); });
}

/// Every byte of every file belongs to one item. Where a hash of the whole file was recorded it says more than that:
/// an edit of the metadata may leave behind what no item names any more.
void check_coverage(std::vector<DcpPlace> places, const DcpFiles& files, VerifyResult& result) {
  std::sort(places.begin(), places.end(), [](const DcpPlace& a, const DcpPlace& b) {
    return std::tie(a.file, a.offset) < std::tie(b.file, b.offset);
  });
  // An edit that gave an object other content leaves the old one behind, in a file that is not written again.
  bool edited = std::any_of(places.begin(), places.end(),
                            [](const DcpPlace& place) { return place.file.starts_with(kEditedPart); });
  std::vector<Finding>& unused = edited ? result.notes : result.damage;
  std::map<std::string, std::uint64_t> ends;
  for (const DcpPlace& place : places) {
    std::uint64_t& end = ends[place.file];
    std::string at = "bytes at " + core::format_count(std::min(end, place.offset));
    bool hashed = files.parts().find(place.file) != nullptr;
    bool gap = place.offset > end && !hashed && !is_padding(*files.opened().at(place.file), end, place.offset);
    if (gap) unused.push_back({place.file, at + " belong to no item"});
    if (place.offset < end) result.damage.push_back({place.file, at + " belong to two items"});
    end = std::max(end, place.offset + place.length);
  }
  for (const auto& [name, file] : files.opened()) {
    if (files.parts().find(name) == nullptr && ends[name] < file->size()) {
      unused.push_back({name, core::format_size(file->size() - ends[name]) + " at its end belong to no item"});
    }
  }
}

void check_archive(const DcpPlace& place, const SourcePtr& bytes, const OpenOptions& options, VerifyResult& result) {
  constexpr std::string_view kZip = "PK\x03\x04";
  core::ByteVector head(std::min<std::uint64_t>(kZip.size(), bytes->size()));
  bytes->read(0, head);
  if (core::as_text(head) != kZip) return;
  VerifyResult part;
  check_records(TorchArchive::open(bytes, options), {}, part);
  std::string where = place.file + " at byte " + std::to_string(place.offset);
  for (const Finding& damage : part.damage) {
    result.damage.push_back({where + ": " + damage.subject, damage.text, damage.hint});
  }
  result.tensors_checked += part.tensors_checked;
  result.bytes_checked += part.bytes_checked;
  if (part.checksums != ChecksumCover::all) result.checksums = ChecksumCover::some;
}

/// Of all parts, also of one that a rank with nothing to write has left.
void check_parts(DcpFiles& files, VerifyResult& result) {
  for (const PartFacts& part : files.parts().parts) {
    if (hash128(*files.range({part.file, 0, part.size})) == part.hash) continue;
    result.damage.push_back({part.file, "its content is not what was written: the 128-bit hash differs"});
  }
}

}  // namespace

VerifyResult verify_dcp(const Input& input, const OpenOptions& options, const Progress& progress) {
  OpenOptions keeping = options;
  keeping.foreign_objects = true;
  keeping.report = nullptr;
  read_dcp(input, keeping);
  DcpMetadata metadata = read_dcp_metadata(*input.file, options);
  DcpFiles files(input.path.parent_path(), metadata.save_id, options);
  VerifyResult result;
  result.method = "CRC-32 of every record of every chunk, and the metadata against the files";
  result.checksums = ChecksumCover::all;
  std::vector<DcpPlace> places = places_of(metadata);
  std::uint64_t total = 0;
  std::uint64_t done = 0;
  for (const DcpPlace& place : places) total += place.length;
  for (const DcpPlace& place : places) {
    check_archive(place, files.range(place), options, result);
    done += place.length;
    if (progress) progress(done, total);
  }
  check_coverage(std::move(places), files, result);
  check_parts(files, result);
  if (!files.parts().parts.empty()) result.method += ", 128-bit hashes of the files";
  return result;
}

namespace {
constexpr std::array<std::string_view, 1> kExtensions = {".dcp"};
}  // namespace

const Format kDcp = {
    .name = "dcp",
    .title = "PyTorch distributed checkpoint",
    .extensions = kExtensions,
    .detect = detect,
    .read = read_dcp,
    .obstacles = dcp_obstacles,
    .write = write_dcp,
    .verify = verify_dcp,
    .splits = true,
    .holds_metadata = false,
    .several_files = true,
    .is_folder = true,
    .objects_beside = true,
    .writes_as = "torch-zip",
};

}  // namespace ckpt::detail
