#pragma once
// RankLayout: which rank writes which piece of a whole checkpoint, decided before a byte is written. Thread safety: one
// owner. Use: RankLayout layout(flat.items, nullptr, {.shards = 4}); layout.owners(0);

#include <map>
#include <string>
#include <vector>

#include "libckpt/format/dcp/detail.h"
#include "libckpt/format/dcp/flatten.h"
#include "libckpt/options.h"

namespace ckpt::detail {

class RankLayout {
 public:
  /// In options.shards parts, tensors cut along options.shard_dim; 0: in those of `old`, or in one.
  RankLayout(const std::vector<FlatItem>& flat, const DcpDetail* old, const SaveOptions& options);

  std::uint64_t ranks() const { return ranks_; }
  /// Bytes of tensors, of each rank.
  const std::vector<std::uint64_t>& load() const { return load_; }
  DcpMetadata& metadata() { return metadata_; }
  const DcpMetadata& metadata() const { return metadata_; }
  /// Of each chunk of an item, or of the item itself.
  const std::vector<std::uint64_t>& owners(std::size_t item) const { return owners_[item]; }
  /// The same for the same content: sets the identity of the save to a hash of what is to be written.
  void name_save();

 private:
  std::uint64_t ranks_of(const DcpDetail* old);
  std::uint64_t least_loaded() const;
  void give(std::uint64_t rank, std::uint64_t bytes);
  void add(const FlatItem& flat, std::size_t dim);
  void cut(DcpItem& item, std::ptrdiff_t old_item, std::size_t dim);
  void keep_boxes(DcpItem& item, const DcpItem& old);

  std::map<std::string, std::uint64_t> old_files_;
  std::uint64_t ranks_;
  const DcpDetail* old_;
  std::vector<std::uint64_t> load_;
  DcpMetadata metadata_;
  std::vector<std::vector<std::uint64_t>> owners_;
};

/// Of a tensor of this type and shape.
std::uint64_t bytes_of_tensor(core::DType dtype, const core::Shape& shape);

}  // namespace ckpt::detail
