#include "libckpt/blocks/unpacked.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "libckpt/io/parallel_io.h"
#include "libckpt/io/unit_source.h"
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
class BlockwiseSource : public UnitSource {
 public:
  BlockwiseSource(SourcePtr source, std::uint64_t from, std::uint64_t to, std::uint64_t at_once)
      : UnitSource(source->size() / from, to, at_once / std::max(from, to)), source_(std::move(source)), from_(from) {
    if (source_->size() % from != 0) throw Error(ErrorCode::corrupt, "a tensor ends within a quantised block");
  }

  void require_unchanged() const override { source_->require_unchanged(); }
  void visit_checked(const CheckedVisitor& see) const override { source_->visit_checked(see); }

 protected:
  virtual void convert(Bytes in, MutableBytes out, std::uint64_t units) const = 0;

 private:
  void compute(std::uint64_t first, MutableBytes out) const override {
    core::ByteVector raw(out.size() / unit() * from_);
    source_->read(first * from_, raw);
    convert(raw, out, out.size() / unit());
  }

  SourcePtr source_;
  std::uint64_t from_;
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
  PackedSource(SourcePtr values, const BlockCodec& codec, std::string name, unsigned threads)
      : BlockwiseSource(std::move(values), codec.elements * sizeof(float), codec.bytes,
                        is_slow(codec) ? kBytesOfThreads : kBytesAtOnce),
        codec_(codec),
        name_(std::move(name)),
        threads_(is_slow(codec) ? threads : 1) {}

 private:
  /// Blocks of parts try many scales for each: slower than one core reads, so all of them pack.
  static bool is_slow(const BlockCodec& codec) { return codec.elements == kMaxElements; }

  void convert(Bytes in, MutableBytes out, std::uint64_t units) const override {
    const std::uint64_t piece = kBytesAtOnce / (codec_.elements * sizeof(float));
    const std::uint64_t pieces = (units + piece - 1) / piece;
    parallel_for(pieces, threads_, [&](std::size_t i) {
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
  unsigned threads_;
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

EntryPtr packed(const Entry& entry, const BlockCodec& codec, const std::string& name, unsigned threads) {
  auto blocks = std::make_shared<Entry>(entry);
  blocks->blocks = BlockType{std::string(codec.name), entry.shape};
  blocks->dtype = DType::u8;
  blocks->view.reset();
  std::int64_t& row = blocks->shape[blocks->shape.size() - 1];
  row = row / codec.elements * codec.bytes;
  if (entry.bytes != nullptr) blocks->bytes = std::make_shared<PackedSource>(entry.bytes, codec, name, threads);
  return blocks;
}

}  // namespace ckpt::detail
