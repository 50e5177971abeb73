#include "libckpt/format/torch/pickle_reader.h"
#include "libckpt/format/torch_zip/torch_archive.h"
#include "libckpt/format/torch_zip/torch_zip.h"
#include "libckpt/io/checksum.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

/// Compares every member with its CRC-32. Returns how many did not match.
std::size_t check_members(const TorchArchive& archive, const Progress& progress, VerifyResult& result) {
  std::size_t bad = 0;
  std::uint64_t total = 0;
  for (const ZipMember& member : archive.zip().members()) total += member.size;
  for (const ZipMember& member : archive.zip().members()) {
    std::string_view name = archive.inner_name(member);
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
  result.damage.clear();
  result.damage.push_back({"archive",
                           "no record has a valid CRC-32: it was saved without checksums, so damage cannot be "
                           "told from good data"});
}

}  // namespace

/// Everything that reading would only let pass leniently, or on request, is a finding.
VerifyResult verify_torch_zip(const Input& input, const OpenOptions& options, const Progress& progress) {
  VerifyResult result;
  result.method = "CRC-32 of every record";
  Report report;
  OpenOptions lenient = options;
  lenient.lenient = true;
  lenient.foreign_objects = true;
  lenient.report = &report;
  TorchArchive archive = TorchArchive::open(input.file, lenient);
  note_missing_checksums(archive, check_members(archive, progress, result), result);
  PickleGraph graph = read_object_pickle(archive, lenient);
  for (const std::string& name : unknown_symbols(graph, SymbolRole::foreign)) {
    result.damage.push_back({"data.pkl", "it names " + name + ", which is no plain data"});
  }
  read_object(archive, graph, lenient);
  for (const std::string& text : report.relaxations) result.damage.push_back({"archive", text});
  for (const std::string& text : report.warnings) result.notes.push_back({"archive", text});
  for (const ZipDeadRange& dead : archive.zip().dead_ranges()) {
    result.notes.push_back({"archive", dead.what + ", " + core::format_size(dead.length)});
  }
  return result;
}

}  // namespace ckpt::detail
