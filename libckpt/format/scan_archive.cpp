// Archives: zip files of PyTorch, NumPy, Keras and others, tar files, and what can be saved of broken zip files.

#include <algorithm>

#include "libckpt/format/pt2/pt2_weights.h"
#include "libckpt/format/scan_walk.h"
#include "libckpt/format/torch_legacy/tar_checkpoint.h"
#include "libckpt/io/checksum.h"
#include "libckpt/io/codec.h"
#include "libckpt/io/tar.h"
#include "libckpt/limits.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::string_view kLocalHeader = "PK\x03\x04";
constexpr std::uint64_t kLocalHeaderSize = 30;

ZipReadOptions zip_options(const Limits& limits) {
  ZipReadOptions options;
  options.max_members = limits.max_zip_members;
  options.max_name = limits.max_name;
  options.max_expansion = limits.max_expansion;
  options.expansion_floor = limits.expansion_floor;
  return options;
}

/// Small records of every torch archive.
bool is_small_record(std::string_view name) {
  for (std::string_view known :
       {"version", ".data/version", "byteorder", ".format_version", ".storage_alignment", ".data/serialization_id"}) {
    if (name == known) return true;
  }
  return false;
}

/// Numbers begin like a pickle or a text now and then, but never like these.
bool is_other_file(ContentKind kind) {
  return kind == ContentKind::zip || kind == ContentKind::tar || kind == ContentKind::legacy_stream ||
         kind == ContentKind::npy || kind == ContentKind::gguf || kind == ContentKind::hdf5;
}

bool is_code(std::string_view name) {
  return name.ends_with(".py") || name.ends_with(".pyc") || name.ends_with(".so");
}

std::string name_of_zip(const ZipArchive& archive) {
  bool arrays = std::all_of(archive.members().begin(), archive.members().end(),
                            [](const ZipMember& member) { return member.name.ends_with(".npy"); });
  if (arrays) return "npz";
  bool keras = archive.find("config.json") != nullptr && archive.find("metadata.json") != nullptr;
  return keras ? "keras" : "zip";
}

}  // namespace

SourcePtr ScanWalk::member_bytes(const ZipArchive& archive, const ZipMember& member, const std::string& where) {
  SourcePtr bytes = archive.payload(member);
  if (member.method == kZipDeflated) {
    bool large = member.size > kMaxScannedMember || budget_.is_large_chunk(member.size);
    if (large || !budget_.take_logical(member.size)) {
      unread(where, "it would inflate to " + core::format_size(member.size) + ", which is not done here");
      return nullptr;
    }
    if (content_kind(*bytes) == ContentKind::pickle) budget_.take_decoded("it", member.size);
    bytes = memory_source(read_all(*bytes));
  }
  if (crc32(*bytes) != member.crc32) finding(where, "its CRC-32 is not the recorded one");
  return bytes;
}

/// Whatever a record is: what it holds decides.
void ScanWalk::member(const ZipArchive& archive, const ZipMember& member, const std::string& where) {
  if (member.is_folder()) return;
  if (is_code(member.name)) {
    ++result_.parts;
    return finding(where, "it is program code");
  }
  guarded(where, [&] {
    if (SourcePtr bytes = member_bytes(archive, member, where)) content(bytes, where);
  });
}

std::string ScanWalk::zip(const SourcePtr& source, const std::string& where) {
  std::optional<ZipArchive> archive;
  if (!guarded(where, [&] { archive = ZipArchive::open(source, zip_options(limits_)); })) {
    salvage(source, where);
    return "zip";
  }
  if (archive->members().empty()) return "npz";
  const std::string& first = archive->members().front().name;
  std::string root = first.substr(0, first.find('/') + 1);
  if (!root.empty() && archive->find(root + "data.pkl") != nullptr) {
    bool script = archive->find(root + "constants.pkl") != nullptr;
    torch_members(*archive, root, where, script);
    return script ? "torchscript" : "torch-zip";
  }
  const std::unordered_set<std::string> values = raw_pt2_records(*archive, limits_);
  for (const ZipMember& m : archive->members()) {
    const std::string place = join(where, m.name);
    if (!values.contains(m.name)) {
      member(*archive, m, place);
      continue;
    }
    ++result_.parts;
    guarded(place, [&] {
      SourcePtr bytes = member_bytes(*archive, m, place);
      if (bytes && is_other_file(content_kind(*bytes))) content(bytes, place);
    });
  }
  return name_of_zip(*archive);
}

/// Storages that a pickle refers to are tensor bytes; everything else is looked at.
void ScanWalk::torch_members(const ZipArchive& archive, const std::string& root, const std::string& where,
                             bool script) {
  std::unordered_set<std::string> storages;
  auto read_pickle_member = [&](const char* name, const char* folder) {
    const ZipMember* found = archive.find(root + name);
    if (found == nullptr) return;
    std::string place = join(where, name);
    guarded(place, [&] {
      SourcePtr bytes = found->size > limits_.max_pickle_bytes ? nullptr : member_bytes(archive, *found, place);
      if (bytes == nullptr) return unread(place, "it is larger than pickles may be");
      PickleYield yield = pickle(read_all(*bytes), place, PickleIds::storages);
      for (const std::string& key : yield.storages) storages.insert(root + folder + key);
      inner_pickles(yield, place);
    });
  };
  read_pickle_member("data.pkl", "data/");
  if (script) read_pickle_member("constants.pkl", "constants/");
  bool code = false;
  for (const ZipMember& m : archive.members()) {
    std::string_view inner = std::string_view(m.name).substr(std::min(root.size(), m.name.size()));
    ++result_.parts;
    bool seen = inner == "data.pkl" || (script && inner == "constants.pkl") || storages.contains(m.name);
    if (seen || (is_small_record(inner) && m.size <= 64)) continue;
    if (script && inner.starts_with("code/") && is_code(inner)) {
      code = true;
      continue;
    }
    if (inner.starts_with(".data/")) finding(join(where, inner), "PyTorch keeps no record of this name");
    member(archive, m, join(where, inner));
  }
  if (script) finding(where, code ? "it holds the code of a TorchScript program" : "it is a TorchScript program");
}

std::string ScanWalk::tar(const SourcePtr& source, const std::string& where) {
  TarArchive archive = TarArchive::open(source, limits_);
  bool torch =
      archive.find("storages") != nullptr && archive.find("tensors") != nullptr && archive.find("pickle") != nullptr;
  for (const TarMember& m : archive.members()) {
    std::string place = join(where, m.name);
    if (!m.regular) {
      ++result_.parts;
      finding(place, "it is a link, a folder or a device");
      continue;
    }
    bool walked = torch && (m.name == "storages" || m.name == "tensors" || m.name == "pickle");
    if (!walked) content(archive.payload(m), place);
  }
  if (torch) torch_tar(source, where);
  return torch ? "torch-tar" : "tar";
}

/// Pickles stand between numbers and data, so they are found by reading the archive as a checkpoint.
void ScanWalk::torch_tar(const SourcePtr& source, const std::string& where) {
  guarded(where, [&] {
    OpenOptions options;
    options.limits = limits_;
    read_tar_checkpoint(source, options, SymbolCheck::carry,
                        [&](const std::string& member, std::uint64_t at, core::Bytes bytes) {
                          std::string place = join(where, member) + " at byte " + std::to_string(at);
                          pickle({bytes.begin(), bytes.end()}, place, PickleIds::tar);
                        });
  });
}

/// A broken archive is never clean; what its records hold is listed all the same.
void ScanWalk::salvage(const SourcePtr& source, const std::string& where) {
  constexpr std::uint64_t kWindow = 1 << 20;
  core::ByteVector window;
  std::size_t found = 0;
  for (std::uint64_t begin = 0; begin < source->size() && found < kMaxSalvagedMembers; begin += kWindow) {
    window.resize(std::min(kWindow + kLocalHeader.size() - 1, source->size() - begin));
    source->read(begin, window);
    std::string_view text = core::as_text(window);
    for (std::size_t at = text.find(kLocalHeader); at != text.npos && found < kMaxSalvagedMembers;
         at = text.find(kLocalHeader, at + 1)) {
      ++found;
      salvage_record(source, begin + at, where);
    }
  }
}

void ScanWalk::salvage_record(const SourcePtr& source, std::uint64_t at, const std::string& where) {
  if (source->size() - at < kLocalHeaderSize) return;
  core::ByteVector header(kLocalHeaderSize);
  source->read(at, header);
  auto method = core::load_le<std::uint16_t>(header.data() + 8);
  auto stored = core::load_le<std::uint32_t>(header.data() + 18);
  auto size = core::load_le<std::uint32_t>(header.data() + 22);
  auto name_size = core::load_le<std::uint16_t>(header.data() + 26);
  std::uint64_t payload = at + kLocalHeaderSize + name_size + core::load_le<std::uint16_t>(header.data() + 28);
  if (payload >= source->size()) return;
  core::ByteVector name(name_size);
  source->read(at + kLocalHeaderSize, name);
  std::string place = join(where, core::as_text(name));
  std::uint64_t left = source->size() - payload;
  guarded(place, [&] {
    SourcePtr bytes = slice(source, payload, stored > 0 && stored <= left ? stored : left);
    if (method == kZipDeflated && size > 0 && size <= kMaxScannedMember && bytes->size() <= kMaxScannedMember) {
      core::ByteVector inflated(size);
      inflate(read_all(*bytes), inflated);
      bytes = memory_source(std::move(inflated));
    }
    if (content_kind(*bytes) == ContentKind::pickle) pickle_sequence(bytes, place, PickleIds::storages, 1);
  });
}

}  // namespace ckpt::detail
