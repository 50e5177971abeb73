#include "libckpt/format/dcp/rank_layout.h"

#include <algorithm>

#include "libckpt/entry.h"
#include "libckpt/format/dcp/encode.h"
#include "libckpt/format/dcp/parts_file.h"
#include "libckpt/format/dcp/write.h"

namespace ckpt::detail {
namespace {

std::map<std::string, std::uint64_t> files_of(const DcpDetail* old) {
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

}  // namespace

std::uint64_t bytes_of_tensor(core::DType dtype, const core::Shape& shape) {
  std::uint64_t numel = core::try_numel(shape.span()).value_or(0);
  return core::byte_size(dtype, numel).value_or(0);
}

RankLayout::RankLayout(const std::vector<FlatItem>& flat, const DcpDetail* old, const SaveOptions& options)
    : ranks_(options.shards > 0 ? options.shards : ranks_of(old)), old_(options.shards > 0 ? nullptr : old) {
  load_.resize(ranks_);
  for (const FlatItem& item : flat) add(item, options.shard_dim);
}

void RankLayout::name_save() {
  metadata_.save_id = save_id_of(hash128(encode_dcp_metadata(metadata_)));
}

std::uint64_t RankLayout::ranks_of(const DcpDetail* old) {
  old_files_ = files_of(old);
  return std::max<std::uint64_t>(1, old_files_.size());
}

std::uint64_t RankLayout::least_loaded() const {
  return static_cast<std::uint64_t>(std::min_element(load_.begin(), load_.end()) - load_.begin());
}

void RankLayout::give(std::uint64_t rank, std::uint64_t bytes) {
  owners_.back().push_back(rank);
  load_[rank] += bytes;
}

void RankLayout::add(const FlatItem& flat, std::size_t dim) {
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

void RankLayout::cut(DcpItem& item, std::ptrdiff_t old_item, std::size_t dim) {
  bool is_empty = core::try_numel(item.shape.span()).value_or(0) == 0;
  if (old_item >= 0) return keep_boxes(item, old_->metadata.items[static_cast<std::size_t>(old_item)]);
  if (dim >= item.shape.size() || is_empty || ranks_ == 1) {
    item.chunks.push_back({core::Shape(item.shape.size(), 0), item.shape, {}});
    return give(least_loaded(), bytes_of_tensor(item.dtype, item.shape));
  }
  for (std::uint64_t rank = 0; rank < ranks_; ++rank) {
    Box box = shard_box(item.shape, dim, rank, ranks_);
    if (box.sizes[dim] == 0) break;
    give(rank, bytes_of_tensor(item.dtype, box.sizes));
    item.chunks.push_back({std::move(box.offsets), std::move(box.sizes), {}});
  }
}

void RankLayout::keep_boxes(DcpItem& item, const DcpItem& old) {
  for (const DcpChunk& chunk : old.chunks) {
    if (!chunk.place) continue;
    item.chunks.push_back({chunk.offsets, chunk.sizes, {}});
    give(old_files_.at(chunk.place->file), bytes_of_tensor(item.dtype, chunk.sizes));
  }
}

}  // namespace ckpt::detail
