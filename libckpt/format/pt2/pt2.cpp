#include "libckpt/format/pt2/pt2.h"

#include <algorithm>

#include "libckpt/format/pt2/pt2_weights.h"
#include "libckpt/io/checked_source.h"
#include "libckpt/io/checksum.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::string_view kFolder = "data/weights/";
constexpr std::string_view kOldWeights = "serialized_state_dict.pt";

ZipArchive open_archive(const SourcePtr& file, const OpenOptions& options) {
  ZipReadOptions zip;
  zip.max_members = options.limits.max_zip_members;
  zip.max_name = options.limits.max_name;
  zip.accept_trailing = options.lenient;
  zip.max_expansion = options.limits.max_expansion;
  zip.expansion_floor = options.limits.expansion_floor;
  return ZipArchive::open(file, zip);
}

/// What stands behind the folder at the top.
std::string_view inner_name(const ZipMember& member) {
  std::string_view name = member.name;
  std::size_t slash = name.find('/');
  return slash == name.npos ? name : name.substr(slash + 1);
}

std::vector<const ZipMember*> lists_of_weights(const ZipArchive& zip) {
  std::vector<const ZipMember*> out;
  for (const ZipMember& member : zip.members()) {
    std::string_view name = inner_name(member);
    if (name.starts_with(kFolder) && name.ends_with(kPt2WeightsEnd)) out.push_back(&member);
  }
  return out;
}

bool detect(const Input& input) {
  if (!core::as_text(input.head).starts_with("PK\x03\x04")) return false;
  try {
    ZipReadOptions options;
    options.accept_trailing = true;
    ZipArchive zip = ZipArchive::open(input.file, options);
    return zip.find(std::string(kOldWeights)) != nullptr || !lists_of_weights(zip).empty();
  } catch (const Error&) {
    return false;  // whoever is asked next says what is wrong
  }
}

class ArchiveReader {
 public:
  ArchiveReader(const Input& input, const OpenOptions& options)
      : input_(input), options_(options), zip_(open_archive(input.file, options)) {}

  const ZipArchive& zip() const { return zip_; }

  Value run() {
    if (const ZipMember* old = zip_.find(std::string(kOldWeights))) return pickled(*old);
    const std::vector<const ZipMember*> lists = lists_of_weights(zip_);
    if (lists.empty()) throw Error(ErrorCode::corrupt, "the archive lists no weights");
    const Pt2Records records = {[&](const ZipMember& member) { return bytes(member); },
                                [&](const ZipMember& member) { return pickled(member); }};
    if (lists.size() == 1) return read_pt2_weights(zip_, *lists[0], records, options_.limits);
    Dict models;
    for (const ZipMember* list : lists) {
      std::string_view name = inner_name(*list).substr(kFolder.size());
      name.remove_suffix(kPt2WeightsEnd.size());
      models.items.emplace_back(Value::text(std::string(name)),
                                read_pt2_weights(zip_, *list, records, options_.limits));
    }
    return Value::dict(std::move(models));
  }

 private:
  SourcePtr bytes(const ZipMember& member) const {
    return checked(zip_.payload(member), member.crc32,
                   {.subject = "the record " + core::quote(inner_name(member)) + " is damaged",
                    .before_use = options_.check_hashes,
                    .lenient = options_.lenient && !options_.check_hashes});
  }

  /// A file of torch.save in the archive.
  Value pickled(const ZipMember& member) const {
    constexpr std::uint64_t kHead = 4096;
    return core::with_context(core::quote(member.name), [&] {
      Input inner;
      inner.path = input_.path;
      inner.file = bytes(member);
      inner.head.resize(std::min(kHead, inner.file->size()));
      inner.file->read(0, inner.head);
      const Format& format = detect_format(inner);
      if (!format.torch_save) {
        throw Error(ErrorCode::corrupt, "it is a " + std::string(format.title) + " where a PyTorch file is needed");
      }
      return format.read(inner, options_).root;
    });
  }

  const Input& input_;
  const OpenOptions& options_;
  ZipArchive zip_;
};

Checkpoint read(const Input& input, const OpenOptions& options) {
  ArchiveReader reader(input, options);
  Checkpoint checkpoint;
  checkpoint.root = reader.run();
  if (options.report != nullptr) {
    if (reader.zip().trailing_bytes() > 0) {
      options.report->relaxations.push_back(core::format_count(reader.zip().trailing_bytes()) +
                                            " bytes after the archive are let pass");
    }
    options.report->warnings.emplace_back(
        "this is an archive of torch.export: its weights are read, its program is not");
  }
  return checkpoint;
}

VerifyResult verify(const Input& input, const OpenOptions& options, const Progress& progress) {
  VerifyResult result;
  result.method = "CRC-32 of every record";
  result.checksums = ChecksumCover::all;
  ArchiveReader reader(input, options);
  result.tensors_checked = list_entries(reader.run()).size();
  std::uint64_t total = 0;
  for (const ZipMember& member : reader.zip().members()) total += member.size;
  for (const ZipMember& member : reader.zip().members()) {
    if (member.is_folder()) continue;
    if (crc32(*reader.zip().payload_without_checksum(member)) != member.crc32) {
      result.damage.push_back({member.name, "its CRC-32 is not the recorded one"});
    }
    result.bytes_checked += member.size;
    if (progress) progress(result.bytes_checked, total);
  }
  return result;
}

}  // namespace

const Format kPt2 = {
    .name = "pt2",
    .title = "torch.export archive",
    .extensions = {},
    .detect = detect,
    .read = read,
    .verify = verify,
    .has_checksums = true,
};

}  // namespace ckpt::detail
