#include "libckpt/budget.h"
#include "libckpt/format/torch/archive_check.h"
#include "libckpt/format/torch_zip/torch_zip.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

/// Every edit in place leaves two.
void note_dead_ranges(const ZipArchive& zip, VerifyResult& result) {
  std::uint64_t bytes = 0;
  for (const ZipDeadRange& range : zip.dead_ranges()) bytes += range.length;
  if (bytes == 0) return;
  result.notes.push_back({"archive", core::format_size(bytes) +
                                         " belong to records and directories that others have replaced since; 'ckpt "
                                         "compact' frees them"});
}

}  // namespace

/// Everything that reading would only let pass leniently, or on request, is a finding. Symbols are the scanner's.
VerifyResult verify_torch_zip(const Input& input, const OpenOptions& options, const Progress& progress) {
  VerifyResult result;
  result.method = "CRC-32 of every record";
  Report report;
  OpenOptions lenient = options;
  lenient.lenient = true;
  lenient.foreign_objects = true;
  lenient.report = &report;
  TorchArchive archive = TorchArchive::open(input.file, lenient);
  check_records(archive, progress, result);
  Value root = read_object(archive, read_object_pickle(archive, lenient), lenient, SymbolCheck::carry);
  if (input.budget) within_budget(root, *input.file, *input.budget);
  for (const std::string& text : report.relaxations) result.damage.push_back({"file", text});
  for (const std::string& text : report.warnings) result.notes.push_back({"archive", text});
  note_dead_ranges(archive.zip(), result);
  return result;
}

}  // namespace ckpt::detail
