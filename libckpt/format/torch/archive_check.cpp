#include "libckpt/format/torch/archive_check.h"

#include "libckpt/io/checksum.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

bool is_packed_code(std::string_view name, const ZipMember& member) {
  return name.starts_with("code/") && member.method == kZipDeflated;
}

/// Compares every member with its CRC-32, but packed code. Returns how many did not match.
std::size_t check_members(const TorchArchive& archive, const Progress& progress, VerifyResult& result) {
  std::size_t bad = 0;
  std::uint64_t total = 0;
  result.checksums = ChecksumCover::all;
  for (const ZipMember& member : archive.zip().members()) total += member.size;
  for (const ZipMember& member : archive.zip().members()) {
    std::string_view name = archive.inner_name(member);
    if (is_packed_code(name, member)) {
      result.checksums = ChecksumCover::some;
      continue;
    }
    std::uint32_t found = crc32(*archive.zip().payload(member));
    if (found != member.crc32) {
      ++bad;
      result.damage.push_back({std::string(name), "its CRC-32 is not the recorded one"});
    }
    if (name.starts_with("data/") && !member.is_folder()) ++result.tensors_checked;
    result.bytes_checked += member.size;
    if (progress) progress(result.bytes_checked, total);
  }
  return bad;
}

/// torch.save can be told to write no checksums; then none of them is one.
void note_missing_checksums(const TorchArchive& archive, std::size_t bad, VerifyResult& result) {
  std::size_t filled = 0;
  for (const ZipMember& member : archive.zip().members()) filled += member.size > 0 ? 1 : 0;
  if (bad == 0 || bad < filled) return;
  result.checksums = ChecksumCover::absent;
  result.damage.clear();
}

}  // namespace

void check_records(const TorchArchive& archive, const Progress& progress, VerifyResult& result) {
  note_missing_checksums(archive, check_members(archive, progress, result), result);
}

}  // namespace ckpt
