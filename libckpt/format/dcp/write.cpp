#include "libckpt/format/dcp/write.h"

#include <algorithm>
#include <map>

#include "libckpt/format/dcp/dcp.h"
#include "libckpt/format/dcp/encode.h"
#include "libckpt/format/dcp/metadata_edit.h"
#include "libckpt/format/dcp/part_writer.h"
#include "libckpt/format/torch_zip/keepable.h"
#include "libckpt/io/atomic_file.h"
#include "libckpt/io/atomic_folder.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

namespace fs = std::filesystem;

std::uint64_t bytes_of(core::DType dtype, const core::Shape& shape) {
  std::uint64_t numel = core::try_numel(shape.span()).value_or(0);
  return core::byte_size(dtype, numel).value_or(0);
}

/// Which rank writes which piece, decided before a byte is written.
class Layout {
 public:
  Layout(const std::vector<FlatItem>& flat, const DcpDetail* old, const SaveOptions& options)
      : ranks_(options.shards > 0 ? options.shards : ranks_of(old)), old_(options.shards > 0 ? nullptr : old) {
    load_.resize(ranks_);
    for (const FlatItem& item : flat) add(item, options.shard_dim);
  }

  std::uint64_t ranks() const { return ranks_; }
  const std::vector<std::uint64_t>& load() const { return load_; }
  DcpMetadata& metadata() { return metadata_; }
  /// Of each chunk of an item, or of the item itself.
  const std::vector<std::uint64_t>& owners(std::size_t item) const { return owners_[item]; }
  core::ByteVector description() const { return encode_dcp_metadata(metadata_); }

 private:
  static std::map<std::string, std::uint64_t> files_of(const DcpDetail* old) {
    std::map<std::string, std::uint64_t> files;
    if (old == nullptr) return files;
    for (const DcpItem& item : old->metadata.items) {
      for (const DcpChunk& chunk : item.chunks) {
        if (chunk.place) files.emplace(chunk.place->file, 0);
      }
    }
    std::uint64_t number = 0;
    for (auto& [name, rank] : files) rank = number++;
    return files;
  }
  std::uint64_t ranks_of(const DcpDetail* old) {
    old_files_ = files_of(old);
    return std::max<std::uint64_t>(1, old_files_.size());
  }

  std::uint64_t least_loaded() const {
    return static_cast<std::uint64_t>(std::min_element(load_.begin(), load_.end()) - load_.begin());
  }
  void give(std::uint64_t rank, std::uint64_t bytes) {
    owners_.back().push_back(rank);
    load_[rank] += bytes;
  }

  void add(const FlatItem& flat, std::size_t dim) {
    DcpItem item;
    item.name = flat.name;
    item.path = flat.path;
    item.is_tensor = flat.value.is(Value::Kind::tensor);
    owners_.emplace_back();
    if (!item.is_tensor) {
      give(0, 0);
    } else {
      const Entry& entry = flat.value.as_entry();
      item.dtype = entry.dtype;
      item.shape = entry.shape;
      item.requires_grad = entry.requires_grad;
      cut(item, old_ == nullptr ? -1 : old_->item_of(flat.value, flat.name), dim);
    }
    metadata_.items.push_back(std::move(item));
  }

  void cut(DcpItem& item, std::ptrdiff_t old_item, std::size_t dim) {
    bool is_empty = core::try_numel(item.shape.span()).value_or(0) == 0;
    if (old_item >= 0) return keep_boxes(item, old_->metadata.items[static_cast<std::size_t>(old_item)]);
    if (dim >= item.shape.size() || is_empty || ranks_ == 1) {
      item.chunks.push_back({core::Shape(item.shape.size(), 0), item.shape, {}});
      return give(least_loaded(), bytes_of(item.dtype, item.shape));
    }
    for (std::uint64_t rank = 0; rank < ranks_; ++rank) {
      Box box = shard_box(item.shape, dim, rank, ranks_);
      if (box.sizes[dim] == 0) break;
      give(rank, bytes_of(item.dtype, box.sizes));
      item.chunks.push_back({std::move(box.offsets), std::move(box.sizes), {}});
    }
  }

  void keep_boxes(DcpItem& item, const DcpItem& old) {
    for (const DcpChunk& chunk : old.chunks) {
      if (!chunk.place) continue;
      item.chunks.push_back({chunk.offsets, chunk.sizes, {}});
      give(old_files_.at(chunk.place->file), bytes_of(item.dtype, chunk.sizes));
    }
  }

  std::map<std::string, std::uint64_t> old_files_;
  std::uint64_t ranks_;
  const DcpDetail* old_;
  std::vector<std::uint64_t> load_;  ///< bytes of tensors a rank
  DcpMetadata metadata_;
  std::vector<std::vector<std::uint64_t>> owners_;
};

/// The data file of one rank; pieces without values are written too, so that every chunk has a place.
PartFacts write_part(const fs::path& folder, std::uint64_t rank, const std::vector<FlatItem>& flat, Layout& layout,
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
        DcpChunk& chunk = items[i].chunks[k];
        const Box box{chunk.offsets, chunk.sizes};
        chunk.place = part.add(boxed_tensor(flat[i].value.as_entry(), box, PartCheck::kept));
        said(bytes_of(items[i].dtype, chunk.sizes));
      }
    });
  }
  return part.finish();
}

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

void write_folder(const Checkpoint& checkpoint, const fs::path& path, const FlatTree& tree,
                  const SaveOptions& options) {
  Layout layout(tree.items, dynamic_cast<const DcpDetail*>(checkpoint.detail.get()), options);
  // Of what is to be written, not of the time: the same input gives the same bytes.
  layout.metadata().save_id = save_id_of(hash128(layout.description()));
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
