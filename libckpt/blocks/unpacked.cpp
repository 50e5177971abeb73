#include "libckpt/blocks/unpacked.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "libckpt/io/parallel_io.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::DType;
using core::Error;
using core::ErrorCode;

constexpr std::size_t kMaxElements = 256;           ///< of a block
constexpr std::uint64_t kBytesAtOnce = 256 << 10;   ///< of the wider side
constexpr std::uint64_t kBytesOfThreads = 4 << 20;  ///< the same where several threads share them

/// Units of `to` bytes that come from as many units of `from` bytes each; about `at_once` bytes are held.
class BlockwiseSource : public ByteSource {
 public:
  BlockwiseSource(SourcePtr source, std::uint64_t from, std::uint64_t to, std::uint64_t at_once)
      : source_(std::move(source)), from_(from), to_(to), count_(source_->size() / from), at_once_(at_once) {
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
      std::uint64_t units = std::min(needed, std::max<std::uint64_t>(1, at_once_ / std::max(from_, to_)));
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
  std::uint64_t at_once_;
};

class UnpackedSource final : public BlockwiseSource {
 public:
  UnpackedSource(SourcePtr blocks, const BlockCodec& codec)
      : BlockwiseSource(std::move(blocks), codec.bytes, codec.elements * sizeof(float), kBytesAtOnce), codec_(codec) {}

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
      : BlockwiseSource(std::move(values), codec.elements * sizeof(float), codec.bytes,
                        is_slow(codec) ? kBytesOfThreads : kBytesAtOnce),
        codec_(codec),
        name_(std::move(name)) {}

 private:
  /// Blocks of parts try many scales for each: slower than one core reads, so all of them pack.
  static bool is_slow(const BlockCodec& codec) { return codec.elements == kMaxElements; }

  void convert(Bytes in, MutableBytes out, std::uint64_t units) const override {
    const std::uint64_t piece = kBytesAtOnce / (codec_.elements * sizeof(float));
    const std::uint64_t pieces = (units + piece - 1) / piece;
    parallel_for(pieces, is_slow(codec_) ? 0 : 1, [&](std::size_t i) {
      pack_units(in, out, i * piece, std::min<std::uint64_t>((i + 1) * piece, units));
    });
  }

  void pack_units(Bytes in, MutableBytes out, std::uint64_t first, std::uint64_t end) const {
    float values[kMaxElements];
    std::size_t width = codec_.elements * sizeof(float);
    for (std::uint64_t i = first; i < end; ++i) {
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
