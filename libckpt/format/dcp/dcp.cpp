#include "libckpt/format/dcp/dcp.h"

#include <algorithm>
#include <map>

#include "libckpt/format/dcp/data_files.h"
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

std::vector<const DcpPlace*> places_of(const DcpMetadata& metadata) {
  std::vector<const DcpPlace*> places;
  for (const DcpItem& item : metadata.items) {
    if (item.place) places.push_back(&*item.place);
    for (const DcpChunk& chunk : item.chunks) {
      if (chunk.place) places.push_back(&*chunk.place);
    }
  }
  return places;
}

/// Every byte of every file belongs to one item.
void check_coverage(std::vector<const DcpPlace*> places, const DcpFiles& files, VerifyResult& result) {
  std::sort(places.begin(), places.end(), [](const DcpPlace* a, const DcpPlace* b) {
    return std::tie(a->file, a->offset) < std::tie(b->file, b->offset);
  });
  std::map<std::string, std::uint64_t> ends;
  for (const DcpPlace* place : places) {
    std::uint64_t& end = ends[place->file];
    std::string at = "bytes at " + core::format_count(std::min(end, place->offset));
    if (place->offset > end) result.damage.push_back({place->file, at + " belong to no item"});
    if (place->offset < end) result.damage.push_back({place->file, at + " belong to two items"});
    end = std::max(end, place->offset + place->length);
  }
  for (const auto& [name, file] : files.opened()) {
    if (ends[name] < file->size()) {
      result.damage.push_back({name, core::format_size(file->size() - ends[name]) + " at its end belong to no item"});
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

}  // namespace

VerifyResult verify_dcp(const Input& input, const OpenOptions& options, const Progress& progress) {
  OpenOptions keeping = options;
  keeping.foreign_objects = true;
  keeping.report = nullptr;
  read_dcp(input, keeping);
  DcpMetadata metadata = read_dcp_metadata(read_dcp_pickle(*input.file, options), options);
  DcpFiles files(input.path.parent_path(), options);
  VerifyResult result;
  result.method = "CRC-32 of every record of every chunk, and the metadata against the files";
  result.checksums = ChecksumCover::all;
  std::vector<const DcpPlace*> places = places_of(metadata);
  std::uint64_t total = 0;
  std::uint64_t done = 0;
  for (const DcpPlace* place : places) total += place->length;
  for (const DcpPlace* place : places) {
    check_archive(*place, files.range(*place), options, result);
    done += place->length;
    if (progress) progress(done, total);
  }
  check_coverage(std::move(places), files, result);
  return result;
}

const Format kDcp = {
    .name = "dcp",
    .title = "PyTorch distributed checkpoint",
    .extensions = {},
    .detect = detect,
    .read = read_dcp,
    .verify = verify_dcp,
    .several_files = true,
    .objects_beside = true,
    .writes_as = "torch-zip",
};

}  // namespace ckpt::detail
