// Verifying: every chunk is decoded. HDF5 keeps checksums only where the writer asked for them.

#include "libckpt/budget.h"
#include "libckpt/format/hdf5_foreign/hdf5_foreign.h"
#include "libckpt/format/hdf5_foreign/read.h"
#include "libckpt/io/checksum.h"
#include "libckpt/io/parallel_io.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

/// Empty when all bytes can be read.
std::string fault_of(const ByteSource& source) {
  try {
    for_each_part(source, [](Bytes) {});
    return "";
  } catch (const core::Error& error) {
    if (error.code() == core::ErrorCode::io || error.code() == core::ErrorCode::refused) throw;
    return error.message();
  }
}

}  // namespace

void verify_tensors(const Checkpoint& checkpoint, const OpenOptions& options, const Progress& progress,
                    VerifyResult& result) {
  std::vector<NamedEntry> entries = list_entries(checkpoint.root);
  std::uint64_t total = 0;
  for (const NamedEntry& named : entries) total += named.entry->byte_size();
  std::uint64_t done = 0;
  ckpt::run_in_order<std::string>(
      entries.size(), {thread_count(options.threads), UINT64_MAX}, [](std::size_t) { return std::uint64_t{1}; },
      [&](std::size_t i) { return fault_of(*entries[i].entry->bytes); },
      [&](std::size_t i, const std::string& fault) {
        if (!fault.empty()) result.damage.push_back({entries[i].name, fault});
        ++result.tensors_checked;
        done += entries[i].entry->byte_size();
        result.bytes_checked += entries[i].entry->byte_size();
        if (progress) progress(done, total);
      });
}

VerifyResult verify_hdf5(const Input& input, const OpenOptions& options, const Progress& progress) {
  VerifyResult result;
  result.method = "reading every chunk, with its checksum where it has one";
  std::string fault = user_block_fault(input.file);
  if (!fault.empty()) result.damage.push_back({"user block", fault});
  Report report;
  OpenOptions checking = options;
  checking.check_hashes = true;
  checking.report = &report;
  Checkpoint checkpoint = read_hdf5_tree(input.file, checking);
  const auto& detail = dynamic_cast<const Hdf5Detail&>(*checkpoint.detail);
  result.checksums = detail.checksums;
  if (input.file->size() > detail.end) {
    result.complete = false;  // nobody looked at what they are
    std::erase_if(report.warnings, [](const std::string& text) { return text.ends_with(kTrailingUnread); });
    result.damage.push_back({"end of the file", core::format_count(input.file->size() - detail.end) +
                                                    " bytes follow the end of the HDF5 part and belong to "
                                                    "nothing in it"});
  }
  if (options.report != nullptr) {
    std::vector<std::string>& warnings = options.report->warnings;
    warnings.insert(warnings.end(), report.warnings.begin(), report.warnings.end());
  }
  if (input.budget) checkpoint.root = within_budget(checkpoint.root, *input.file, *input.budget);
  verify_tensors(checkpoint, options, progress, result);
  return result;
}

}  // namespace ckpt::detail
