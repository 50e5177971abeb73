#include "libckpt/format/dcp/metadata_edit.h"

#include <set>

#include "libckpt/format/dcp/encode.h"
#include "libckpt/format/dcp/part_writer.h"
#include "libckpt/io/atomic_file.h"
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

/// Data files of earlier edits that nothing names any more; those that ranks wrote are never removed.
void remove_unnamed(const std::filesystem::path& folder, const DcpMetadata& old, const DcpMetadata& now) {
  std::set<std::string> unnamed;
  auto each_file = [](const DcpMetadata& metadata, const auto& see) {
    for (const DcpItem& item : metadata.items) {
      if (item.place) see(item.place->file);
    }
  };
  each_file(old, [&](const std::string& file) {
    if (file.starts_with(kEditedPart)) unnamed.insert(file);
  });
  each_file(now, [&](const std::string& file) { unnamed.erase(file); });
  for (const std::string& file : unnamed) file_ops().unlinkat(AT_FDCWD, (folder / file).c_str(), 0);
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
  old.file->require_unchanged();
  std::uint64_t written = 0;
  if (!edit.fresh.empty()) {
    DcpPartWriter part(folder, free_part(folder), edit.metadata.save_id, 0, options);
    for (std::size_t item : edit.fresh) edit.metadata.items[item].place = part.add(edit.flat[item].value);
    written += part.finish().size;
  }
  core::ByteVector bytes = encode_dcp_metadata(edit.metadata);
  AtomicFile file(folder / kDcpMetadata, {.durable = options.durable, .expected_size = bytes.size()});
  file.write(bytes);
  file.commit();
  remove_unnamed(folder, old.metadata, edit.metadata);
  written += bytes.size();
  if (options.progress) options.progress(written, written);
  if (options.report == nullptr) return;
  options.report->bytes_written += written;
  options.report->rung = "in place";
  options.report->part = kDcpMetadata;
}

}  // namespace ckpt::detail
