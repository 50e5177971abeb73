#include "libckpt/format/dcp/write.h"

#include <algorithm>

#include "libckpt/format/dcp/dcp.h"
#include "libckpt/format/dcp/encode.h"
#include "libckpt/format/dcp/metadata_edit.h"
#include "libckpt/format/dcp/part_writer.h"
#include "libckpt/format/dcp/rank_layout.h"
#include "libckpt/format/torch_zip/keepable.h"
#include "libckpt/io/atomic_file.h"
#include "libckpt/io/atomic_folder.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

namespace fs = std::filesystem;

/// The data file of one rank; pieces without values are written too, so that every chunk has a place.
PartFacts write_part(const fs::path& folder, std::uint64_t rank, const std::vector<FlatItem>& flat, RankLayout& layout,
                     const SaveOptions& options, const std::function<void(std::uint64_t)>& said) {
  std::vector<DcpItem>& items = layout.metadata().items;
  DcpPartWriter part(folder, part_name(rank), layout.metadata().save_id, layout.load()[rank], options);
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::vector<std::uint64_t>& owners = layout.owners(i);
    core::with_context(core::quote(items[i].name), [&] {
      for (std::size_t k = 0; k < owners.size(); ++k) {
        if (owners[k] != rank) continue;
        if (!items[i].is_tensor) {
          items[i].place = part.add(flat[i].value);
          continue;
        }
        const Box box{items[i].chunks.offsets(k), items[i].chunks.sizes(k)};
        items[i].chunks.set_place(k, part.add(boxed_tensor(flat[i].value.as_entry(), box, PartCheck::kept)));
        said(bytes_of_tensor(items[i].dtype, box.sizes));
      }
    });
  }
  return part.finish();
}

void write_folder(const Checkpoint& checkpoint, const fs::path& path, const FlatTree& tree,
                  const SaveOptions& options) {
  RankLayout layout(tree.items, dynamic_cast<const DcpDetail*>(checkpoint.detail.get()), options);
  layout.name_save();
  std::uint64_t total = 0;
  for (std::uint64_t bytes : layout.load()) total += bytes;
  std::uint64_t done = 0;
  auto said = [&](std::uint64_t bytes) {
    done += bytes;
    if (options.progress) options.progress(done, total);
  };
  AtomicFolder folder(path, {.overwrite = options.overwrite, .durable = options.durable, .may_replace = is_dcp_file});
  PartsFile parts;
  parts.save_id = layout.metadata().save_id;
  parts.ranks = layout.ranks();
  std::uint64_t written = 0;
  for (std::uint64_t rank = 0; rank < layout.ranks(); ++rank) {
    parts.parts.push_back(write_part(folder.hidden(), rank, tree.items, layout, options, said));
    written += parts.parts.back().size;
  }
  written += write_index(folder.hidden(), layout.metadata(), parts, options);
  folder.commit();
  if (options.report == nullptr) return;
  options.report->bytes_written += written;
  options.report->rung = "rewrite";
}

}  // namespace

void report_losses(const Checkpoint& checkpoint, const FlatTree& tree, const SaveOptions& options) {
  if (options.report == nullptr) return;
  bool tagged = std::any_of(tree.items.begin(), tree.items.end(), [](const FlatItem& item) {
    return item.value.is(Value::Kind::tensor) && item.value.as_entry().location != "cpu";
  });
  if (tagged) {
    options.report->warnings.emplace_back(
        "device tags have no place in a distributed checkpoint and were left out: its tensors are of the CPU");
  }
  if (tree.number_keys > 0) {
    options.report->warnings.push_back(core::format_count(tree.number_keys) +
                                       " keys that are no text were written as text, as PyTorch does it here");
  }
  const std::pair<std::string, std::string> usual = {"format", "pt"};
  bool says_more = std::any_of(checkpoint.metadata.begin(), checkpoint.metadata.end(),
                               [&](const auto& pair) { return pair != usual; });
  if (!says_more) return;
  options.report->warnings.emplace_back(
      "the file-level metadata has no place in a distributed checkpoint and was left out");
}

Box shard_box(const core::Shape& shape, std::size_t dim, std::uint64_t rank, std::uint64_t ranks) {
  Box box{core::Shape(shape.size(), 0), shape};
  auto n = static_cast<std::uint64_t>(shape[dim]);
  std::uint64_t most = (n + ranks - 1) / ranks;
  std::uint64_t begin = std::min(n, rank * most);
  box.offsets[dim] = static_cast<std::int64_t>(begin);
  box.sizes[dim] = static_cast<std::int64_t>(std::min(n, begin + most) - begin);
  return box;
}

std::uint64_t write_index(const fs::path& folder, const DcpMetadata& metadata, const PartsFile& parts,
                          const SaveOptions& options) {
  std::uint64_t written = 0;
  auto write = [&](std::string_view name, const core::ByteVector& bytes) {
    AtomicFile file(folder / name, {.durable = options.durable, .expected_size = bytes.size(), .lock = false});
    file.write(bytes);
    file.commit();
    written += bytes.size();
  };
  write(kPartsFile, encode_parts_file(parts));
  write(kDcpMetadata, encode_dcp_metadata(metadata));
  return written;
}

std::vector<Obstacle> dcp_obstacles(const Checkpoint& checkpoint, const SaveOptions&) {
  KeepableTree keepable = keepable_tree(checkpoint.root);
  std::vector<Obstacle> obstacles = std::move(keepable.obstacles);
  for (Obstacle& more : flatten_tree(keepable.root).obstacles) obstacles.push_back(std::move(more));
  return obstacles;
}

void write_dcp(const Checkpoint& checkpoint, const fs::path& path, const SaveOptions& options) {
  fs::path folder = path.filename() == kDcpMetadata ? path.parent_path() : path;
  Checkpoint kept = checkpoint;
  kept.root = keepable_tree(checkpoint.root).root;
  bool same_parts = options.overwrite && options.shards == 0;
  std::optional<MetadataEdit> edit = same_parts ? plan_metadata_edit(kept, folder) : std::nullopt;
  FlatTree tree = flatten_tree(kept.root);
  report_losses(kept, tree, options);
  if (edit) return apply_metadata_edit(kept, std::move(*edit), folder, options);
  write_folder(kept, folder, tree, options);
}

}  // namespace ckpt::detail
