#pragma once
// What the library wants described, read from its bytes: one dataset after the other, each checked as it comes.
// Thread safety: one owner; the bytes must outlive it. Use: Description wanted(bytes); while (wanted.next()) use(
// wanted.dataset());

#include <hdf5.h>

#include <cstdint>
#include <string>
#include <vector>

#include "libckpt/hdf5/wire.h"
#include "libckpt/io/byte_cursor.h"
#include "libcore/base/dtype.h"

namespace ckpt::detail {

/// One text, integer, real or boolean, or a list of integers.
struct DescribedAttribute {
  std::string name;
  AttributeKind kind = kAttributeOther;
  bool is_list = false;
  std::string text;
  std::vector<std::int64_t> integers;  ///< also a boolean
  double real = 0;
};

/// A whole dataset of another file, as a part of a virtual one.
struct DescribedPiece {
  std::string file;
  std::string dataset;
  std::vector<hsize_t> offsets;
  std::vector<hsize_t> sizes;
};

struct DescribedDataset {
  std::vector<std::string> path;  ///< links below the top group
  DescribedKind kind = kDescribedRaw;
  std::string target;  ///< of a link: path of the other dataset
  core::DType dtype = core::DType::u8;
  std::vector<hsize_t> dims;
  std::uint64_t offset = 0;  ///< of its bytes, from the end of the user block
  std::uint64_t size = 0;    ///< bytes of a raw one
  std::vector<hsize_t> chunk;
  bool shuffled = false;
  DescribedFilter filter = kDescribedZstd;
  unsigned level = 0;                  ///< of the filter
  std::vector<std::uint32_t> stored;   ///< bytes of each chunk
  std::vector<DescribedPiece> pieces;  ///< of a virtual one
  std::vector<DescribedAttribute> attributes;
};

class Description {
 public:
  /// Reads the head. Errors of all members: Failure(internal), Error(corrupt) for bytes that are no description.
  explicit Description(core::Bytes bytes);

  std::uint64_t user_block() const { return user_block_; }
  std::uint64_t metadata_begin() const { return metadata_begin_; }
  bool in_order() const { return in_order_; }
  const std::string& top_group() const { return top_group_; }
  const std::vector<DescribedAttribute>& root_attributes() const { return attributes_; }
  std::uint64_t datasets() const { return datasets_; }

  /// Reads the next dataset; false when there is none.
  bool next();
  const DescribedDataset& dataset() const { return dataset_; }

 private:
  std::vector<DescribedAttribute> take_attributes();
  void take_path();
  void take_raw();
  void take_packed();
  void take_virtual();

  ByteCursor in_;
  std::uint64_t user_block_ = 0;
  std::uint64_t metadata_begin_ = 0;
  bool in_order_ = false;
  std::string top_group_;
  std::vector<DescribedAttribute> attributes_;
  std::uint64_t datasets_ = 0;
  std::uint64_t done_ = 0;
  DescribedDataset dataset_;
};

}  // namespace ckpt::detail
