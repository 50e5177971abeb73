#include "libckpt/format/dcp/metadata_edit.h"

#include <set>

#include "libckpt/format/dcp/encode.h"
#include "libckpt/format/dcp/part_writer.h"
#include "libckpt/io/atomic_file.h"
#include "libckpt/io/edit_journal.h"
#include "libckpt/io/file_ops.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

/// A name for one more data file.
std::string free_part(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::uint64_t number = 0;
  auto name = [&] { return std::string(kEditedPart) + std::to_string(number) + ".distcp"; };
  while (std::filesystem::exists(folder / name(), ignored)) ++number;
  return name();
}

/// Data files of earlier edits that nothing names any more, not even what an undo would put back; those that ranks
/// wrote are never among them.
std::set<std::string> unnamed_parts(const std::filesystem::path& folder, const DcpMetadata& old,
                                    const DcpMetadata& now) {
  std::set<std::string> unnamed;
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator(folder, ignored)) {
    std::string name = file.path().filename().string();
    if (name.starts_with(kEditedPart) && name.ends_with(".distcp")) unnamed.insert(std::move(name));
  }
  for (const DcpMetadata* metadata : {&old, &now}) {
    for (const DcpItem& item : metadata->items) {
      if (item.place) unnamed.erase(item.place->file);
    }
  }
  return unnamed;
}

void require_same(const DcpDetail& old, const std::filesystem::path& folder) {
  old.file->require_unchanged();
  if (is_file_of(*old.file, folder / kDcpMetadata)) return;
  throw core::Error(core::ErrorCode::io, "another program wrote the metadata since they were read; open them again");
}

/// The edit stands, whether it can be taken back or not.
void keep_undo(const std::filesystem::path& metadata, FileEdit changes, const SaveOptions& options) {
  if (changes.length() == 0) return;
  UndoKept kept = UndoKept::nowhere;
  try {
    if (EditJournal::can_record(changes)) kept = keep_undo_of_replaced(metadata, std::move(changes));
  } catch (const core::Error&) {
    kept = UndoKept::nowhere;
  }
  std::string warning = undo_warning(kept);
  if (options.report != nullptr && !warning.empty()) options.report->warnings.push_back(warning);
}

}  // namespace

std::optional<MetadataEdit> plan_metadata_edit(const Checkpoint& checkpoint, const std::filesystem::path& folder) {
  const auto* old = dynamic_cast<const DcpDetail*>(checkpoint.detail.get());
  std::error_code failed;
  if (old == nullptr || !std::filesystem::equivalent(old->folder, folder, failed) || failed) return std::nullopt;
  MetadataEdit edit;
  edit.flat = flatten_tree(checkpoint.root).items;
  edit.metadata.save_id = old->metadata.save_id;
  for (const FlatItem& flat : edit.flat) {
    std::ptrdiff_t known = old->item_of(flat.value, flat.name);
    bool is_tensor = flat.value.is(Value::Kind::tensor);
    if (known < 0 && is_tensor) return std::nullopt;
    DcpItem item;
    if (known >= 0) item = old->metadata.items[static_cast<std::size_t>(known)];
    if (known < 0) edit.fresh.push_back(edit.metadata.items.size());
    item.is_tensor = is_tensor;
    item.requires_grad = is_tensor && flat.value.as_entry().requires_grad;
    item.name = flat.name;
    item.path = flat.path;
    edit.metadata.items.push_back(std::move(item));
  }
  return edit;
}

void apply_metadata_edit(const Checkpoint& checkpoint, MetadataEdit edit, const std::filesystem::path& folder,
                         const SaveOptions& options) {
  const auto& old = dynamic_cast<const DcpDetail&>(*checkpoint.detail);
  AtomicFile file(folder / kDcpMetadata, {.durable = options.durable});  // from here on nobody else edits the folder
  require_same(old, folder);
  const std::set<std::string> unnamed = unnamed_parts(folder, old.metadata, edit.metadata);
  std::uint64_t written = 0;
  if (!edit.fresh.empty()) {
    DcpPartWriter part(folder, free_part(folder), edit.metadata.save_id, 0, options);
    for (std::size_t item : edit.fresh) edit.metadata.items[item].place = part.add(edit.flat[item].value);
    written += part.finish().size;
  }
  core::ByteVector bytes = encode_dcp_metadata(edit.metadata);
  FileEdit changes;
  changes.replace_end(0, read_all(*old.file), bytes);
  file.write(bytes);
  file.commit();
  keep_undo(folder / kDcpMetadata, std::move(changes), options);
  for (const std::string& part : unnamed) file_ops().unlinkat(AT_FDCWD, (folder / part).c_str(), 0);
  written += bytes.size();
  if (options.progress) options.progress(written, written);
  if (options.report == nullptr) return;
  options.report->bytes_written += written;
  options.report->rung = "in place";
  options.report->part = kDcpMetadata;
}

}  // namespace ckpt::detail
