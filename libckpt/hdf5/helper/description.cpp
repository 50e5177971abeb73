#include "libckpt/hdf5/helper/description.h"

#include "libckpt/hdf5/helper/handle.h"
#include "libckpt/hdf5/helper/type_message.h"
#include "libckpt/io/packed.h"

namespace ckpt::detail {
namespace {

constexpr std::uint64_t kMaxLinks = 64;  ///< of a path; the library's paths are shorter

[[noreturn]] void throw_nonsense(const std::string& what) {
  throw Failure{kFailureInternal, "the description contradicts itself: " + what};
}

std::vector<hsize_t> take_sizes(ByteCursor& in, std::uint64_t rank) {
  std::vector<hsize_t> sizes;
  for (std::uint64_t d = 0; d < rank; ++d) sizes.push_back(take_count(in));
  return sizes;
}

/// libhdf5 takes texts that end with a zero.
std::string take_name(ByteCursor& in) {
  std::string name = take_string(in);
  if (name.find('\0') != std::string::npos) throw_nonsense("a name with a zero in it");
  return name;
}

DescribedAttribute take_attribute(ByteCursor& in) {
  DescribedAttribute attribute;
  attribute.name = take_name(in);
  attribute.kind = static_cast<AttributeKind>(in.take<std::uint8_t>());
  attribute.is_list = in.take<std::uint8_t>() != 0;
  std::uint64_t count = take_length(in);
  if (attribute.is_list ? attribute.kind != kAttributeInteger : count != 1) throw_nonsense("an attribute");
  for (std::uint64_t i = 0; i < count; ++i) {
    if (attribute.kind == kAttributeText) {
      attribute.text = take_string(in);
    } else if (attribute.kind == kAttributeInteger) {
      attribute.integers.push_back(in.take<std::int64_t>());
    } else if (attribute.kind == kAttributeReal) {
      attribute.real = in.take<double>();
    } else if (attribute.kind == kAttributeBoolean) {
      attribute.integers.push_back(in.take<std::uint8_t>() != 0 ? 1 : 0);
    } else {
      throw_nonsense("an attribute of an unknown kind");
    }
  }
  return attribute;
}

}  // namespace

Description::Description(core::Bytes bytes) : in_(bytes, "the description") {
  user_block_ = take_count(in_);
  metadata_begin_ = take_count(in_);
  if (user_block_ > INT64_MAX / 2 || metadata_begin_ > INT64_MAX / 2 || metadata_begin_ < kMaxSuperblock) {
    throw_nonsense("the place of the metadata");
  }
  in_order_ = (in_.take<std::uint8_t>() & kDescribeInOrder) != 0;
  top_group_ = take_name(in_);
  attributes_ = take_attributes();
  datasets_ = take_length(in_);
}

bool Description::next() {
  if (done_ == datasets_) {
    if (!in_.at_end()) throw_nonsense("bytes are left after its end");
    return false;
  }
  ++done_;
  take_path();
  auto kind = in_.take<std::uint8_t>();
  if (kind > kDescribedVirtual) throw_nonsense("a dataset of an unknown kind");
  dataset_.kind = static_cast<DescribedKind>(kind);
  dataset_.attributes.clear();
  if (kind == kDescribedLink) {
    dataset_.target = take_name(in_);
    return true;
  }
  std::string name = take_string(in_);
  std::optional<core::DType> dtype = core::try_parse_dtype(name);
  if (!dtype) throw_nonsense("a dataset of an unknown type");
  dataset_.dtype = *dtype;
  std::uint64_t rank = take_length(in_);
  if (rank > kMaxRank) throw_nonsense("too many dimensions");
  dataset_.dims = take_sizes(in_, rank);
  if (kind == kDescribedVirtual) {
    take_virtual();
  } else {
    dataset_.offset = take_count(in_);
    kind == kDescribedRaw ? take_raw() : take_packed();
  }
  dataset_.attributes = take_attributes();
  return true;
}

void Description::take_raw() {
  dataset_.size = take_count(in_);
  // Tensors lie between the superblock and the metadata, so that neither can be written over.
  bool inside = dataset_.offset >= kMaxSuperblock && dataset_.offset <= metadata_begin_ &&
                dataset_.size <= metadata_begin_ - dataset_.offset;
  if (dataset_.size > 0 && !inside) throw_nonsense("a dataset outside the room for tensors");
}

void Description::take_packed() {
  dataset_.chunk = take_sizes(in_, dataset_.dims.size());
  dataset_.shuffled = in_.take<std::uint8_t>() != 0;
  auto filter = in_.take<std::uint8_t>();
  if (filter > kDescribedTrimmed) throw_nonsense("an unknown filter");
  dataset_.filter = static_cast<DescribedFilter>(filter);
  dataset_.level = static_cast<unsigned>(take_count(in_));
  std::uint64_t count = take_length(in_);
  dataset_.stored.clear();
  std::uint64_t end = dataset_.offset;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t size = take_count(in_);
    if (size == 0 || size > UINT32_MAX) throw_nonsense("a chunk of an impossible size");
    dataset_.stored.push_back(static_cast<std::uint32_t>(size));
    end += size;  // 2^32 chunks of 2^32 bytes do not come here
  }
  if (dataset_.offset < kMaxSuperblock || dataset_.offset > metadata_begin_ || end > metadata_begin_) {
    throw_nonsense("a dataset outside the room for tensors");
  }
}

void Description::take_virtual() {
  const std::size_t rank = dataset_.dims.size();
  std::uint64_t count = take_length(in_);
  if (count == 0) throw_nonsense("a virtual dataset without pieces");
  dataset_.pieces.clear();
  for (std::uint64_t i = 0; i < count; ++i) {
    DescribedPiece piece{take_name(in_), take_name(in_), take_sizes(in_, rank), take_sizes(in_, rank)};
    for (std::size_t d = 0; d < rank; ++d) {
      bool inside = piece.sizes[d] > 0 && piece.offsets[d] <= dataset_.dims[d] &&
                    piece.sizes[d] <= dataset_.dims[d] - piece.offsets[d];
      if (!inside) throw_nonsense("a piece outside its dataset");
    }
    dataset_.pieces.push_back(std::move(piece));
  }
}

void Description::take_path() {
  std::uint64_t same = take_count(in_);
  std::uint64_t more = take_count(in_);
  if (same > dataset_.path.size() || more == 0 || more > kMaxLinks || same + more > kMaxLinks) throw_nonsense("a path");
  dataset_.path.resize(same);
  for (std::uint64_t i = 0; i < more; ++i) {
    std::string name = take_name(in_);
    if (name.empty() || name == "." || name.find('/') != std::string::npos) throw_nonsense("the name of a link");
    dataset_.path.push_back(std::move(name));
  }
}

std::vector<DescribedAttribute> Description::take_attributes() {
  std::vector<DescribedAttribute> attributes;
  std::uint64_t count = take_length(in_);
  for (std::uint64_t i = 0; i < count; ++i) attributes.push_back(take_attribute(in_));
  return attributes;
}

}  // namespace ckpt::detail
