#pragma once
// SharedBytes: a part of a block of bytes that lives as long as anybody looks into it; a copy copies no byte.
// Thread safety: immutable. Use: SharedBytes index(core::ByteVector(100));
// SharedBytes tree = index.part(index.bytes().first(10));

#include <memory>
#include <utility>

#include "libcore/base/bytes.h"

namespace ckpt::detail {

class SharedBytes {
 public:
  SharedBytes() = default;
  /// All of `block`: a vector of bytes, or a LargeBlock.
  template <class Block>
  explicit SharedBytes(Block block) {
    auto kept = std::make_shared<const Block>(std::move(block));
    bytes_ = {kept->data(), kept->size()};
    block_ = std::move(kept);
  }

  const core::Bytes& bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  /// REQUIRES: `bytes` lie in these.
  SharedBytes part(core::Bytes bytes) const {
    SharedBytes out(*this);
    out.bytes_ = bytes;
    return out;
  }

 private:
  std::shared_ptr<const void> block_;
  core::Bytes bytes_;
};

}  // namespace ckpt::detail
