#include "libckpt/format/npz/npz_archive.h"
#include "libckpt/hint.h"
#include "libckpt/io/checked_source.h"
#include "libckpt/io/checksum.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {

void warn_about_void(const std::string& name, const Entry& entry, Report* report) {
  if (report == nullptr || (entry.dtype != core::DType::bits8 && entry.dtype != core::DType::bits16)) return;
  report->warnings.push_back((name.empty() ? "the array" : core::quote(name)) +
                             " has a void type, so its meaning is unknown (bfloat16 and 8-bit floats are saved so); "
                             "its bits are kept");
}

namespace {

using core::Error;
using core::ErrorCode;

constexpr std::size_t kMaxListed = 8;

ZipReadOptions zip_options(const OpenOptions& options) {
  ZipReadOptions zip;
  zip.max_members = options.limits.max_zip_members;
  zip.max_name = options.limits.max_name;
  zip.accept_trailing = options.lenient;
  zip.max_expansion = options.limits.max_expansion;
  zip.expansion_floor = options.limits.expansion_floor;
  return zip;
}

/// The bytes of a member, which are compared with their checksum when they are read.
SourcePtr member_bytes(const ZipArchive& zip, const ZipMember& member, const OpenOptions& options) {
  return checked(zip.payload(member), member.crc32,
                 {.subject = "the array is damaged",
                  .before_use = options.check_hashes,
                  .lenient = options.lenient && !options.check_hashes});
}

void read_member(const ZipArchive& zip, const ZipMember& member, const OpenOptions& options, NpzMember& out) {
  if (!member.name.ends_with(kNpyExtension)) {
    out.problem = "not a .npy array";
    return;
  }
  out.file = member_bytes(zip, member, options);
  // The header is read through a source of its own, so that no decoder stays behind.
  NpyHeader header = read_npy_header(*zip.payload(member), options.limits.max_rank);
  NpyArray array = array_behind(header, out.file);
  if (array.trailing > 0) {
    out.problem = "an array with " + core::format_count(array.trailing) + " bytes after it";
    return;
  }
  out.entry = std::move(array.entry);
}

NpzMember make_member(const ZipArchive& zip, const ZipMember& member, const OpenOptions& options) {
  NpzMember out;
  out.name = member.name;
  if (out.name.ends_with(kNpyExtension)) out.name.resize(out.name.size() - kNpyExtension.size());
  try {
    read_member(zip, member, options, out);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::io) throw;
    out.problem = error.what();
    out.code = error.code();
  }
  return out;
}

/// All that is no array in one sentence; leniently, what is left out.
void report_problems(const NpzArchive& archive, const OpenOptions& options) {
  std::string list;
  std::size_t count = 0;
  ErrorCode code = ErrorCode::unsupported;
  for (const NpzMember& member : archive.members) {
    if (member.entry != nullptr) continue;
    std::string text = core::quote(member.name) + " (" + member.problem + ")";
    if (options.lenient && options.report != nullptr) options.report->relaxations.push_back("left out member " + text);
    if (count < kMaxListed) list += (count == 0 ? "" : "; ") + text;
    if (member.code != ErrorCode::unsupported && code != ErrorCode::refused) code = member.code;
    ++count;
  }
  if (count == 0 || options.lenient) return;
  if (count > kMaxListed) list += "; and " + core::format_count(count - kMaxListed) + " more";
  throw HintedError(
      code,
      core::format_count(count) + (count == 1 ? " member is not a tensor: " : " members are not tensors: ") + list,
      Hint{"{} reads the others", {{Hint::Option::lenient}}});
}

}  // namespace

NpzArchive open_npz(const SourcePtr& file, const OpenOptions& options) {
  NpzArchive archive{ZipArchive::open(file, zip_options(options)), {}};
  if (archive.zip.members().size() > options.limits.max_tensors) {
    throw Error(ErrorCode::refused, "the archive has " + core::format_count(archive.zip.members().size()) +
                                        " members, where at most " + core::format_count(options.limits.max_tensors) +
                                        " are read");
  }
  for (const ZipMember& member : archive.zip.members()) {
    if (member.is_folder()) continue;
    archive.members.push_back(make_member(archive.zip, member, options));
  }
  return archive;
}

Checkpoint read_npz(const Input& input, const OpenOptions& options) {
  NpzArchive archive = open_npz(input.file, options);
  report_problems(archive, options);
  if (archive.zip.trailing_bytes() > 0 && options.report != nullptr) {
    options.report->relaxations.push_back(core::format_count(archive.zip.trailing_bytes()) +
                                          " bytes after the zip archive are ignored");
  }
  auto detail = std::make_shared<NpzDetail>();
  detail->file = input.file;
  detail->zip = std::move(archive.zip);
  Dict dict;
  for (NpzMember& member : archive.members) {
    if (member.entry == nullptr) continue;
    warn_about_void(member.name, *member.entry, options.report);
    dict.items.emplace_back(Value::text(member.name), Value::tensor(member.entry));
    detail->members.push_back(std::move(member));
  }
  Checkpoint checkpoint;
  checkpoint.root = Value::dict(std::move(dict));
  checkpoint.detail = std::move(detail);
  return checkpoint;
}

VerifyResult verify_npz(const Input& input, const OpenOptions& options, const Progress& progress) {
  VerifyResult result;
  result.method = "CRC-32 of every member";
  result.checksums = ChecksumCover::all;
  NpzArchive archive = open_npz(input.file, options);
  report_problems(archive, options);
  std::uint64_t total = 0;
  for (const ZipMember& member : archive.zip.members()) total += member.size;
  for (const ZipMember& member : archive.zip.members()) {
    try {
      if (crc32(*archive.zip.payload(member)) != member.crc32) {
        result.damage.push_back({member.name, "its CRC-32 is not the recorded one"});
      }
    } catch (const Error& error) {
      if (error.code() == ErrorCode::io) throw;
      result.damage.push_back({member.name, error.message()});
    }
    if (!member.is_folder()) ++result.tensors_checked;
    result.bytes_checked += member.size;
    if (progress) progress(result.bytes_checked, total);
  }
  for (const ZipDeadRange& dead : archive.zip.dead_ranges()) {
    result.notes.push_back({"archive", dead.what + ", " + core::format_size(dead.length)});
  }
  return result;
}

}  // namespace ckpt::detail
