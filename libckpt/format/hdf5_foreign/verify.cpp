// Verifying: every chunk is decoded. HDF5 keeps checksums only where the writer asked for them.

#include "libckpt/budget.h"
#include "libckpt/format/hdf5_foreign/hdf5_foreign.h"
#include "libckpt/format/hdf5_foreign/read.h"
#include "libckpt/format/hdf5_foreign/user_block.h"
#include "libckpt/hint.h"
#include "libckpt/io/parallel_io.h"
#include "libckpt/io/read_fault.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

/// Foreign user blocks are legal and said; that of a native file is its index, so that another is damage.
void look_at_user_block(const SourcePtr& file, const Hdf5Detail& detail, VerifyResult& result) {
  UserBlock block = find_user_block(file);
  if (block.size == 0) return;
  bool lost_index = block.content && detail.only_data && has_native_superblock(file, block);
  if (lost_index) {
    result.damage.push_back({"user block",
                             "the index of a native checkpoint was overwritten: its " + core::format_count(block.size) +
                                 " bytes hold something else",
                             Hint{"run {} to restore it", {{Hint::Option::rescue}}}});
  } else if (!block.danger.empty()) {
    result.damage.push_back({"user block", describe(block)});
  } else {
    result.notes.push_back({"user block", describe(block)});
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
      [&](std::size_t i) { return read_fault(*entries[i].entry->bytes); },
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
  Report report;
  OpenOptions checking = options;
  checking.check_hashes = true;
  checking.report = &report;
  Checkpoint checkpoint = read_hdf5_tree(input.file, checking);
  const auto& detail = dynamic_cast<const Hdf5Detail&>(*checkpoint.detail);
  look_at_user_block(input.file, detail, result);
  result.checksums = detail.checksums;
  std::string behind = zip_at_end(*input.file);
  if (input.file->size() > detail.end) {
    result.complete = false;  // nobody looked at what they are
    std::erase_if(report.warnings, [](const std::string& text) { return text.ends_with(kTrailingUnread); });
    std::string bytes = core::format_count(input.file->size() - detail.end) +
                        " bytes follow the end of the HDF5 part and belong to nothing in it";
    behind = behind.empty() ? bytes : bytes + "; " + behind;
  }
  if (!behind.empty()) result.damage.push_back({"end of the file", std::move(behind)});
  if (options.report != nullptr) {
    std::vector<std::string>& warnings = options.report->warnings;
    warnings.insert(warnings.end(), report.warnings.begin(), report.warnings.end());
  }
  if (input.budget) checkpoint.root = within_budget(checkpoint.root, *input.file, *input.budget);
  verify_tensors(checkpoint, options, progress, result);
  return result;
}

}  // namespace ckpt::detail
