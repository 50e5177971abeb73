#include "libckpt/blocks/unpacked.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::DType;
using core::Error;
using core::ErrorCode;

constexpr std::size_t kMaxElements = 256;          ///< of a block
constexpr std::uint64_t kBytesAtOnce = 256 << 10;  ///< of the wider side

/// Units of `wide` bytes that come from as many units of `from` bytes each.
class BlockwiseSource : public ByteSource {
 public:
  BlockwiseSource(SourcePtr source, std::uint64_t from, std::uint64_t to)
      : source_(std::move(source)), from_(from), to_(to), count_(source_->size() / from) {
    if (source_->size() % from != 0) throw Error(ErrorCode::corrupt, "a tensor ends within a quantised block");
  }

  std::uint64_t size() const override { return count_ * to_; }

  void read(std::uint64_t offset, MutableBytes out) const override {
    if (offset > size() || out.size() > size() - offset) {
      throw Error(ErrorCode::corrupt, "a read past the end of a tensor");
    }
    core::ByteVector raw;
    core::ByteVector part;
    while (!out.empty()) {
      std::uint64_t first = offset / to_;
      std::uint64_t skip = offset % to_;
      std::uint64_t needed = (skip + out.size() + to_ - 1) / to_;
      std::uint64_t units = std::min(needed, std::max<std::uint64_t>(1, kBytesAtOnce / std::max(from_, to_)));
      raw.resize(units * from_);
      source_->read(first * from_, raw);
      std::uint64_t taken = std::min<std::uint64_t>(units * to_ - skip, out.size());
      if (skip == 0 && taken == units * to_) {
        convert(raw, out.first(taken), units);
      } else {
        part.resize(units * to_);
        convert(raw, part, units);
        std::memcpy(out.data(), part.data() + skip, taken);
      }
      offset += taken;
      out = out.subspan(taken);
    }
  }

  void require_unchanged() const override { source_->require_unchanged(); }
  void visit_checked(const CheckedVisitor& see) const override { source_->visit_checked(see); }

 protected:
  virtual void convert(Bytes in, MutableBytes out, std::uint64_t units) const = 0;

 private:
  SourcePtr source_;
  std::uint64_t from_;
  std::uint64_t to_;
  std::uint64_t count_;
};

class UnpackedSource final : public BlockwiseSource {
 public:
  UnpackedSource(SourcePtr blocks, const BlockCodec& codec)
      : BlockwiseSource(std::move(blocks), codec.bytes, codec.elements * sizeof(float)), codec_(codec) {}

 private:
  void convert(Bytes in, MutableBytes out, std::uint64_t units) const override {
    float values[kMaxElements];
    std::size_t width = codec_.elements * sizeof(float);
    for (std::uint64_t i = 0; i < units; ++i) {
      codec_.unpack(in.data() + i * codec_.bytes, values);
      std::memcpy(out.data() + i * width, values, width);
    }
  }

  const BlockCodec& codec_;
};

class PackedSource final : public BlockwiseSource {
 public:
  PackedSource(SourcePtr values, const BlockCodec& codec, std::string name)
      : BlockwiseSource(std::move(values), codec.elements * sizeof(float), codec.bytes),
        codec_(codec),
        name_(std::move(name)) {}

 private:
  void convert(Bytes in, MutableBytes out, std::uint64_t units) const override {
    float values[kMaxElements];
    std::size_t width = codec_.elements * sizeof(float);
    for (std::uint64_t i = 0; i < units; ++i) {
      std::memcpy(values, in.data() + i * width, width);
      bool finite = std::all_of(values, values + codec_.elements, [](float value) { return std::isfinite(value); });
      if (!finite) {
        throw Error(ErrorCode::refused, core::quote(name_) + " has a value that is not finite, which blocks of type " +
                                            std::string(codec_.name) + " cannot hold; keep the tensor as it is");
      }
      codec_.pack(values, out.data() + i * codec_.bytes);
    }
  }

  const BlockCodec& codec_;
  std::string name_;
};

}  // namespace

EntryPtr unpacked(const Entry& entry) {
  const BlockCodec* codec = find_block_codec(entry.blocks->name);
  if (codec == nullptr) return nullptr;
  auto values = std::make_shared<Entry>(entry);
  values->dtype = DType::f32;
  values->shape = entry.blocks->shape;
  values->blocks.reset();
  values->view.reset();
  if (entry.bytes != nullptr) values->bytes = std::make_shared<UnpackedSource>(entry.bytes, *codec);
  return values;
}

EntryPtr with_values(EntryPtr entry) {
  if (!entry->blocks) return entry;
  EntryPtr values = unpacked(*entry);
  return values == nullptr ? entry : values;
}

EntryPtr packed(const Entry& entry, const BlockCodec& codec, const std::string& name) {
  auto blocks = std::make_shared<Entry>(entry);
  blocks->blocks = BlockType{std::string(codec.name), entry.shape};
  blocks->dtype = DType::u8;
  blocks->view.reset();
  std::int64_t& row = blocks->shape[blocks->shape.size() - 1];
  row = row / codec.elements * codec.bytes;
  if (entry.bytes != nullptr) blocks->bytes = std::make_shared<PackedSource>(entry.bytes, codec, name);
  return blocks;
}

}  // namespace ckpt::detail
